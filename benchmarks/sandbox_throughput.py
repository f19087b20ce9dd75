"""Whole verdicts an hour: distinct candidates compiled, checked and timed, beside KernelBench.

    python -m benchmarks.sandbox_throughput --device cuda:0 --candidates 60 [--kernelbench CHECKOUT]
    python -m benchmarks.sandbox_throughput --device cpu --candidates 12

No two candidates are equal, so no build is found in a cache; what all builds share, the
task's audit and the device's facts are made by two candidates before the clock starts. One
alone: from request to verdict with nothing else going on. Side by side: so many are in flight
at any time, as in a search with many workers; with several devices (``--device cuda:0,cuda:1``)
whichever is free takes the next. Once from the first request to the last verdict, and once
without the first builds, when no device has work yet, and without the end, when nothing more is
built: from the verdict that completes the first so many, until the last one is asked for.

The peer judges the same candidates on the same machine afterwards, with its own defaults for a
run over generations (5 correctness trials, 100 timed calls, a process for each candidate):
one by one with the build in it, and in its best configuration: builds side by side first
(its ``build_compile_cache``, as many at a time as it is given jobs), then a process each that
finds its build.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from benchmarks.kernelbench_peer import evaluate_alone, precompile
from benchmarks.sandbox_compile import Numbers
from benchmarks.table import Table
from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest, PrerequisiteMissing, Verdict
from gpu_sandbox.sandbox import LocalSandbox

ELEMENTS = {"cuda": (2048, 2048), "cpu": (256, 512)}
"""16 MB an input on a GPU, half a megabyte on the CPU: small problems."""
TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        return x * 1.5 + 0.25 * y

def get_inputs():
    return [torch.rand{shape}, torch.rand{shape}]

def get_init_inputs():
    return []
"""
HEADERS = """
import torch
import torch.nn as nn
{build}

class ModelNew(nn.Module):
    def forward(self, x, y):
        return EXT.step(x, y, 0.25)
"""
FREE = """
import ctypes
import torch
import torch.nn as nn
{build}
STEP = ctypes.CDLL(EXT).step

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, y, out)]
        STEP(*pointers, ctypes.c_float(0.25), ctypes.c_long(x.numel()){stream})
        return out
"""
STREAM = ", ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)"
KINDS = {
    "cuda": ("inline CUDA, torch headers", "12 s", "2400 an hour"),
    "cu": ("CUDA without torch", "4 s", "3600 an hour"),
    "cpp": ("inline C++, torch headers", "-", "-"),
    "c": ("C++ without torch", "-", "-"),
}
"""What they are called, and the goals: alone, and side by side."""


def candidate(kind: str, numbers: Numbers) -> str:
    build = numbers.build(kind)
    if kind in ("cuda", "cpp"):
        return HEADERS.format(build=build)
    return FREE.format(build=build, stream=STREAM if kind == "cu" else "")


_FEWEST = 8


class Bench:
    def __init__(self, sandbox: LocalSandbox, device: str, table: Table, numbers: Numbers) -> None:
        self._sandbox = sandbox
        self._device = device
        self._table = table
        self._numbers = numbers
        self.task = TASK.format(shape=ELEMENTS[device.split(":")[0]])
        self.raw: dict[str, Any] = {}

    async def judge(self, kind: str) -> tuple[Verdict, float]:
        request = EvaluationRequest(
            task_name="throughput",
            task_source=self.task,
            candidate_source=candidate(kind, self._numbers),
            device=self._device,
            protocol="strict",
            seed=1,
        )
        began = time.monotonic()
        verdict = await self._sandbox.evaluate(request)
        assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.compile_log)
        return verdict, time.monotonic() - began

    async def measure(self, kind: str, count: int, in_flight: int) -> None:
        name, alone_goal, hour_goal = KINDS[kind]
        for number in (1, 2):
            self._table.progress(f"{name}: what all share, {number} of 2")
            await self.judge(kind)
        self._table.progress(f"{name}: alone, three times")
        alone = [(await self.judge(kind))[1] for _ in range(3)]
        self._table.row(f"{name}, alone", alone_goal, f"{statistics.median(alone):.2f} s")
        self._table.progress(f"{name}: {count} distinct ones, {in_flight} in flight")
        timings: list[dict[str, float]] = []
        asked: list[float] = []
        ended: list[float] = []
        began = time.monotonic()
        left = iter(range(count))

        async def take_turns() -> None:
            for _ in left:
                asked.append(time.monotonic() - began)
                verdict, _ = await self.judge(kind)
                ended.append(time.monotonic() - began)
                timings.append(verdict.timings_s)

        async with anyio.create_task_group() as group:
            for _ in range(in_flight):
                group.start_soon(take_turns)
        lease = statistics.median(t["lease"] for t in timings)
        self._table.row(
            f"{name}, {count} distinct, steady",
            hour_goal,
            f"{_steady(asked, ended, in_flight)}, device held {lease:.2f} s",
        )
        self._table.row(f"{name}, all of these", "-", f"{3600 * count / ended[-1]:.0f} an hour")
        self.raw[kind] = {"alone_s": alone, "asked_s": asked, "ended_s": ended, "timings": timings}


def _steady(asked: list[float], ended: list[float], in_flight: int) -> str:
    rate = steady_per_hour(asked, ended, in_flight)
    if rate is None:
        return f"more candidates are needed than {len(asked)}"
    return f"{rate:.0f} an hour"


def steady_per_hour(asked: list[float], ended: list[float], in_flight: int) -> float | None:
    """Verdicts an hour while ``in_flight`` are under way: from the end that completes the first so
    many until the last is asked for. None where fewer than eight end in between.

    ``asked`` and ``ended`` are in seconds, each in ascending order.
    """
    within = [end for end in ended[in_flight - 1 :] if end <= asked[-1]]
    if len(within) < _FEWEST:
        return None
    return 3600 * (len(within) - 1) / (within[-1] - within[0])


def beside(
    checkout: Path, task: str, numbers: Numbers, table: Table, alone: int, jobs: int
) -> dict[str, Any]:
    """KernelBench's evaluator on candidates with torch's headers, in both ways."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        reference = folder / "reference.py"
        reference.write_text(task)

        def written(number: int) -> Path:
            path = folder / f"candidate_{number}.py"
            path.write_text(candidate("cuda", numbers))
            return path

        table.progress(f"KernelBench, one by one: {alone}")
        one_by_one = [
            evaluate_alone(checkout, folder, reference, written(number)) for number in range(alone)
        ]
        mean = statistics.fmean(one_by_one)
        table.row("KernelBench, one by one", "-", f"{mean:.1f} s, {3600 / mean:.0f} an hour")
        batch = [written(number) for number in range(alone, alone + jobs)]
        table.progress(f"KernelBench, {jobs} builds side by side")
        built = precompile(checkout, folder, batch)
        table.progress("KernelBench, with their builds")
        judged = [evaluate_alone(checkout, folder, reference, path) for path in batch[:alone]]
        alone_s = statistics.fmean(judged)
        each = built / jobs + alone_s
        table.row(
            f"KernelBench, {jobs} precompiled",
            "-",
            f"{3600 / each:.0f} an hour ({built:.0f} s, then {alone_s:.1f} s each)",
        )
    return {"one_by_one_s": one_by_one, "built_s": built, "jobs": jobs, "judged_s": judged}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="several with commas between")
    parser.add_argument("--kinds", help="some of cuda,cu or cpp,c")
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--in-flight", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--kernelbench", type=Path, help="a checkout, to measure beside it")
    parser.add_argument("--peer-runs", type=int, default=3, help="candidates it judges each way")
    parser.add_argument("--peer-only", action="store_true")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    on_cpu = chosen.device == "cpu"
    kinds = (chosen.kinds or ("cpp,c" if on_cpu else "cuda,cu")).split(",")
    if chosen.peer_only:
        kinds = []
    numbers = Numbers()
    with tempfile.TemporaryDirectory() as cache:
        async with LocalSandbox(tuple(chosen.device.split(",")), cache=Path(cache)) as sandbox:
            facts = await sandbox.fingerprint(chosen.device)
            cores = len(os.sched_getaffinity(0))
            table = Table(
                f"{chosen.device}, {facts['name']}, {cores} cores, torch {facts['torch']}"
            )
            bench = Bench(sandbox, chosen.device, table, numbers)
            for kind in kinds:
                await bench.measure(kind, chosen.candidates, chosen.in_flight)
    if chosen.kernelbench:
        if on_cpu:
            raise PrerequisiteMissing("KernelBench's evaluator needs a GPU")
        bench.raw["kernelbench"] = await anyio.to_thread.run_sync(
            beside, chosen.kernelbench.resolve(), bench.task, numbers, table,
            chosen.peer_runs, cores,
        )  # fmt: skip
    if chosen.json:
        chosen.json.write_text(json.dumps({"facts": facts, "rows": table.rows, **bench.raw}))


if __name__ == "__main__":
    anyio.run(main)
