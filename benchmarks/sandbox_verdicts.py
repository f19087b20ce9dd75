"""What a verdict costs and how well it repeats, as a table that grows while it is measured.

    python -m benchmarks.sandbox_verdicts [--device cpu|cuda:0] [--only overhead,observe,large,aa]
        [--kernels PATTERN] [--long] [--json FILE]

Measured through ``LocalSandbox``, as the search uses it:

- overhead: seconds of an evaluation that are not the candidate's or the reference's own
  (a tiny module, everything cached): the whole, less trials and bench; of evaluations a second
  apart, of one after the other, and of two at a time, so that one always waits for the device;
- lease: how long the device is held for a small problem;
- observe: by how much roofline and profile extend that, for a small and a larger problem;
- large: elementwise modules with gigabyte inputs, nothing to compile (CUDA only), and the first
  verdict of each, which audits the task;
- A/A: the reference as its own candidate, and how many of the ratios are within so many
  percent of one: on the CPU with the other cores busy, with ``--long`` idle as well.

``--json`` holds what each run read: of the overhead's, the seconds of each of its stages, too.

The peers: a fresh process that imports torch and compares once (overhead); means of 100 calls
each, one after the other in one process (A/A), under the same load.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from benchmarks.table import Table
from events.observations import SectionName
from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox

_TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, {arguments}):
        return {expression}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


def task(expression: str, *shapes: str) -> str:
    names = ", ".join("abc"[: len(shapes)])
    inputs = ", ".join(f"torch.rand({shape})" for shape in shapes)
    return _TASK.format(arguments=names, expression=expression, inputs=inputs)


def itself(source: str) -> str:
    return source.replace("class Model(", "class ModelNew(")


def request_for(
    source: str, candidate: str, device: str, seed: int, observe: tuple[SectionName, ...] = ()
) -> EvaluationRequest:
    return EvaluationRequest(
        task_name="bench",
        task_source=source,
        candidate_source=candidate,
        device=device,
        protocol="strict",
        seed=seed,
        observe=observe,
    )


TINY = task("torch.relu(a)", "64, 64")
LARGE = {
    "relu, 1.6 G elements": task("torch.relu(a)", "4096, 393216"),
    "log_softmax, 1.6 G elements": task("torch.log_softmax(a, dim=1)", "4096, 393216"),
    "add, 2 x 0.8 G elements": task("a + b", "4096, 196608", "4096, 196608"),
}
AA = {
    "cpu": {
        "add+relu, 512 KB": task("torch.relu(a + b)", "256, 512", "256, 512"),
        "softmax, 1 MB": task("torch.softmax(a, dim=1)", "512, 512"),
        "matmul 256": task("a @ b", "256, 256", "256, 256"),
    },
    "cuda": {
        "softmax, 2 MB (8 us)": task("torch.softmax(a, dim=-1)", "512, 1024"),
        "four operations, 2 MB (18 us)": task(
            "torch.tanh(a * b) / (1 + a.abs())", *["512, 512"] * 2
        ),
        "matmul 512 (15 us)": task("a @ b", "512, 512", "512, 512"),
        "matmul 1024 (57 us)": task("a @ b", "1024, 1024", "1024, 1024"),
        "relu, 256 MB (130 us)": task("torch.relu(a)", "8192, 8192"),
        "softmax, 256 MB": task("torch.softmax(a, dim=1)", "8192, 8192"),
        "matmul 4096 (2.7 ms)": task("a @ b", "4096, 4096", "4096, 4096"),
    },
}


GOALS = {
    "softmax, 1 MB": 0.02,
    "matmul 256": 0.02,
    "matmul 1024 (57 us)": 0.01,
    "relu, 256 MB (130 us)": 0.01,
    "softmax, 256 MB": 0.01,
    "matmul 4096 (2.7 ms)": 0.01,
}
"""Within how much of one 95 % of the ratios have to be."""

_COLD = """
import torch
exec(SOURCE)
inputs = get_inputs()
assert torch.equal(Model()(*inputs), Model()(*inputs))
"""
_BURN = """
import os
os.sched_setaffinity(0, [0])
while True:
    sum(range(10_000))
"""
_MEANS = """
import json, sys, time, torch
exec(SOURCE)
first, second = Model(), Model()
wait = torch.cuda.synchronize if DEVICE != "cpu" else lambda: None

def mean(model, inputs):
    for _ in range(3):
        model(*inputs)
    wait()
    began = time.perf_counter()
    for _ in range(100):
        model(*inputs)
    wait()
    return time.perf_counter() - began

torch.set_num_threads(1)
ratios = []
for _ in range(RUNS):
    inputs = [value.to(DEVICE) for value in get_inputs()]
    ratios.append(mean(first, inputs) / mean(second, inputs))
print(json.dumps(ratios))
"""


async def peer(script: str, source: str, **values: object) -> bytes:
    """What plain torch says, in a fresh process."""
    head = "".join(f"{name} = {value!r}\n" for name, value in {"SOURCE": source, **values}.items())
    done = await anyio.run_process([sys.executable, "-c", head + script], stderr=None)
    return done.stdout


class Bench:
    def __init__(self, sandbox: LocalSandbox, device: str, table: Table) -> None:
        self._sandbox = sandbox
        self._device = device
        self._table = table
        self.raw: dict[str, Any] = {}

    async def judge(
        self, source: str, seed: int, observe: tuple[SectionName, ...] = ()
    ) -> tuple[Verdict, float]:
        began = time.perf_counter()
        verdict = await self._sandbox.evaluate(
            request_for(source, itself(source), self._device, seed, observe)
        )
        return verdict, time.perf_counter() - began

    async def overhead(self, runs: int) -> None:
        self._table.progress("a fresh process, three times")
        cold = []
        for _ in range(3):
            began = time.perf_counter()
            await peer(_COLD, TINY)
            cold.append(time.perf_counter() - began)
        fresh = f"{statistics.median(cold) * 1e3:.0f} ms"
        await self.judge(TINY, 0)
        for name, apart_s in (("a second apart", 1.0), ("one after the other", 0.0)):
            spent = [await self._timings(name, seed, apart_s) for seed in range(runs)]
            around = [t["wall"] - t.get("check", 0) - t.get("bench", 0) for t in spent]
            self.raw[f"overhead, {name}"] = spent
            self._table.row(f"overhead, {name}", "60 ms", _spread(around), fresh)
        self._table.row("device lease, small problem", "1 s", _spread([t["lease"] for t in spent]))
        for stage in ("check", "bench"):
            self._table.row(f"of it {stage}", "", _spread([t.get(stage, 0.0) for t in spent]))
        queued = await self._overhead_when_queued(runs)
        self._table.row("overhead, two in flight", "60 ms", f"{queued * 1e3:.0f} ms ({runs} runs)")

    async def _timings(self, name: str, seed: int, after_s: float) -> dict[str, float]:
        """Of a verdict after a pause, in seconds."""
        self._table.progress(f"overhead, {name}, {seed + 1}")
        await anyio.sleep(after_s)
        verdict, wall = await self.judge(TINY, seed)
        return {"wall": wall, "queue": verdict.queue_s, **verdict.timings_s}

    async def observe(self, runs: int) -> None:
        """The first run counts and probes, as the first of a search does: it is left out."""
        for name, source in {"tiny": TINY, **_largest(self._device)}.items():
            await self.judge(source, 0, ("roofline", "profile"))
            shares, seconds, missing = [], [], []
            for seed in range(1, runs + 1):
                self._table.progress(f"observe {name}, {seed} of {runs}")
                verdict, _ = await self.judge(source, seed, ("roofline", "profile"))
                timings, seen = verdict.timings_s, verdict.observations
                if seen is None:
                    missing.append(str(verdict.outcome))
                    continue
                seconds.append(timings["observe"])
                shares.append(timings["observe"] / (timings["lease"] - timings["observe"]))
                missing += seen.missing.values()
            self.raw[f"observe {name}"] = {"shares": shares, "s": seconds, "missing": missing}
            told = f"{statistics.median(shares):.1%} (at most {max(shares):.1%})" if shares else ""
            more = f"; {len(missing)} without: {missing[0]}" if missing else ""
            self._table.row(
                f"observe, share of the lease: {name}", "25 %", f"{told}, {_spread(seconds)}{more}"
            )

    async def _overhead_when_queued(self, runs: int) -> float:
        """Seconds an evaluation, while another always waits for the device."""
        self._table.progress("overhead, two in flight")
        seeds, own, spent = iter(range(1000, 1000 + runs)), [], []

        async def take_turns() -> None:
            for seed in seeds:
                verdict, wall = await self.judge(TINY, seed)
                timings = verdict.timings_s
                spent.append({"wall": wall, "queue": verdict.queue_s, **timings})
                own.append(timings.get("check", 0) + timings.get("bench", 0))

        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            group.start_soon(take_turns)
            group.start_soon(take_turns)
        self.raw["overhead_queued_s"] = (time.perf_counter() - began) / runs - statistics.mean(own)
        self.raw["overhead_queued_timings_s"] = spent
        return float(self.raw["overhead_queued_s"])

    async def large(self) -> None:
        for name, source in LARGE.items():
            self._table.progress(name)
            found = [await self.judge(source, seed) for seed in range(4)]
            self.raw[name] = [
                {"wall": wall, **verdict.timings_s, "told": _told(verdict)}
                for verdict, wall in found
            ]
            told = [f"{wall:.2f} s ({_told(verdict)})" for verdict, wall in found]
            self._table.row(name, "3 s", f"{', '.join(told[1:])}; the first {told[0]}")

    async def agree(self, runs: int, condition: str, only: str) -> None:
        for name, source in AA[self._device.split(":")[0]].items():
            if not re.search(only, name):
                continue
            self._table.progress(f"A/A {name}: the peer")
            told = await peer(_MEANS, source, DEVICE=self._device, RUNS=runs)
            plain = json.loads(told)
            ratios, bounds, odd, doubted = [], [], [], []
            for seed in range(runs):
                self._table.progress(f"A/A {name}, {seed + 1} of {runs}")
                verdict, _ = await self.judge(source, seed)
                if isinstance(verdict.outcome, Correct):
                    ratios.append(verdict.outcome.ratio)
                    bounds.append(1 / (verdict.outcome.bounded_speedup or 1))
                else:
                    odd.append(str(verdict.outcome))
                doubted += [note for note in verdict.notes if note.startswith("timing disputed")]
            self.raw[f"A/A{condition} {name}"] = {
                "ratios": ratios,
                "bounds": bounds,
                "peer": plain,
                "doubted": doubted,
            }
            goal = GOALS.get(name)
            self._table.row(
                f"A/A{condition} {name}",
                f"95 % within {goal:.0%}" if goal else "-",
                _within(ratios, runs) + _oddities(odd, doubted),
                _within(plain, runs),
            )


def _told(verdict: Verdict) -> str:
    """Of what is not correct, why, and the notes: the reference itself is to be."""
    name = type(verdict.outcome).__name__.lower()
    if isinstance(verdict.outcome, Correct):
        return name
    return "; ".join([f"{name}: {verdict.outcome.reason}", *verdict.notes])


def _largest(device: str) -> dict[str, str]:
    known = AA[device.split(":")[0]]
    return dict(list(known.items())[-1:])


def _oddities(odd: list[str], doubted: list[str]) -> str:
    """``doubted``: honest claims that were not believed; there should be none."""
    told = f"; {len(doubted)} doubted: {doubted[0]}" if doubted else ""
    return told + (f"; {odd[0]}" if odd else "")


def _within(ratios: list[float], runs: int) -> str:
    shares = [sum(abs(r - 1) <= d for r in ratios) / runs for d in (0.01, 0.02, 0.05)]
    return "1, 2, 5 %: " + ", ".join(f"{share:.0%}" for share in shares) + f" of {runs}"


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return (
        f"{statistics.median(values) * 1e3:.0f} ms"
        f" ({ordered[0] * 1e3:.0f} to {ordered[-1] * 1e3:.0f}, {len(values)} runs)"
    )


@contextmanager
def busy_core() -> Iterator[None]:
    """The first core, which compiles, burns meanwhile. No fork of this process, which would
    hold its lock on the device for as long as it burns."""
    with subprocess.Popen([sys.executable, "-c", _BURN]) as other:
        try:
            yield
        finally:
            other.kill()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--long", action="store_true", help="30 runs of each, and idle as well")
    parser.add_argument("--only", default="overhead,observe,large,aa", help="parts, by comma")
    parser.add_argument("--aa", type=int, help="runs of each A/A test")
    parser.add_argument("--kernels", default="", help="of the A/A tests, those with this pattern")
    parser.add_argument("--runs", type=int, help="runs of the overhead test")
    parser.add_argument("--bench-s", type=float, default=1.0, help="seconds of timing a verdict")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    usual = 30 if chosen.long else 10
    aa, runs = chosen.aa or usual, chosen.runs or usual
    on_cpu = chosen.device == "cpu"
    async with LocalSandbox((chosen.device,), limits=Limits(bench_s=chosen.bench_s)) as sandbox:
        facts = await sandbox.fingerprint(chosen.device)
        table = Table(
            f"{facts['name']}, torch {facts['torch']}, Python {platform.python_version()}"
        )
        bench = Bench(sandbox, chosen.device, table)
        parts = chosen.only.split(",")
        if "overhead" in parts:
            await bench.overhead(runs)
        if "observe" in parts:
            await bench.observe(runs)
        if "large" in parts and not on_cpu:
            await bench.large()
        if "aa" in parts and (chosen.long or not on_cpu):
            await bench.agree(aa, "", chosen.kernels)
        if "aa" in parts and on_cpu:
            with busy_core():
                await bench.agree(aa, ", other core busy,", chosen.kernels)
    if chosen.json:
        chosen.json.write_text(json.dumps({"facts": facts, "rows": table.rows, **bench.raw}))


if __name__ == "__main__":
    anyio.run(main)
