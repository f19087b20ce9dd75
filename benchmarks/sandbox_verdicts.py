"""What a verdict costs and how well it repeats, as one table.

    python benchmarks/sandbox_verdicts.py [--device cpu|cuda:0] [--aa 100] [--json FILE]

Measured through ``LocalSandbox``, as the search uses it:

- overhead: seconds of an evaluation that are not the candidate's or the reference's own
  (a tiny module, everything cached): the whole, less trials and bench;
- lease: how long the device is held for a small problem;
- large: elementwise modules with gigabyte inputs, nothing to compile (CUDA only);
- A/A: the reference as its own candidate, ``--aa`` times each, with the share of ratios
  within 1 % and 2 % of one, alone and (CPU) with the other cores busy.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import anyio

from events.outcomes import Correct
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import EvaluationRequest, Verdict
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
        "matmul 1024 (57 us)": task("a @ b", "1024, 1024", "1024, 1024"),
        "relu, 256 MB (130 us)": task("torch.relu(a)", "8192, 8192"),
        "softmax, 256 MB": task("torch.softmax(a, dim=1)", "8192, 8192"),
        "matmul 4096 (2.7 ms)": task("a @ b", "4096, 4096", "4096, 4096"),
    },
}


class Bench:
    def __init__(self, sandbox: LocalSandbox, device: str) -> None:
        self._sandbox = sandbox
        self._device = device
        self.rows: list[tuple[str, str]] = []
        self.raw: dict[str, Any] = {}

    def row(self, name: str, told: str) -> None:
        self.rows.append((name, told))
        print(f"{name:<46} {told}", flush=True)

    async def judge(self, source: str, seed: int) -> tuple[Verdict, float]:
        request = EvaluationRequest(
            task_name="bench",
            task_source=source,
            candidate_source=itself(source),
            device=self._device,
            protocol="strict",
            seed=seed,
        )
        began = time.perf_counter()
        verdict = await self._sandbox.evaluate(request)
        return verdict, time.perf_counter() - began

    async def overhead(self, runs: int) -> None:
        await self.judge(TINY, 0)
        around, leases = [], []
        for seed in range(1, runs + 1):
            verdict, wall = await self.judge(TINY, seed)
            timings = verdict.timings_s
            around.append(wall - timings.get("check", 0) - timings.get("bench", 0))
            leases.append(timings["lease"])
        self.raw["overhead_s"], self.raw["lease_s"] = around, leases
        self.row("overhead of an evaluation, all cached", _spread(around))
        self.row("device lease, small problem", _spread(leases))

    async def large(self) -> None:
        for name, source in LARGE.items():
            await self.judge(source, 0)
            found = [await self.judge(source, seed) for seed in (1, 2, 3)]
            self.raw[name] = [wall for _, wall in found]
            told = [f"{wall:.2f} s ({type(v.outcome).__name__.lower()})" for v, wall in found]
            self.row(name, ", ".join(told))

    async def agree(self, runs: int, condition: str) -> None:
        for name, source in AA[self._device.split(":")[0]].items():
            ratios, bounds, odd = [], [], []
            for seed in range(runs):
                verdict, _ = await self.judge(source, seed)
                if isinstance(verdict.outcome, Correct):
                    ratios.append(verdict.outcome.ratio)
                    bounds.append(1 / (verdict.outcome.bounded_speedup or 1))
                else:
                    odd.append(str(verdict.outcome))
            self.raw[f"A/A {condition} {name}"] = ratios
            within = [sum(abs(r - 1) <= d for r in ratios) / runs for d in (0.01, 0.02, 0.05)]
            told = (
                f"within 1 %: {within[0]:.0%}, 2 %: {within[1]:.0%}, 5 %: {within[2]:.0%}; "
                f"median {statistics.median(ratios):.4f}, bound {statistics.median(bounds):.3f}"
            )
            self.row(f"A/A{condition} {name}", told + (f"; {odd[0]}" if odd else ""))


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return (
        f"median {statistics.median(values) * 1e3:.0f} ms"
        f" ({ordered[0] * 1e3:.0f} to {ordered[-1] * 1e3:.0f}, {len(values)} runs)"
    )


def _burn(core: int) -> None:
    import os

    os.sched_setaffinity(0, [core])
    while True:
        sum(range(10_000))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--aa", type=int, default=20, help="runs of each A/A test")
    parser.add_argument("--runs", type=int, default=20, help="runs of the overhead test")
    parser.add_argument("--bench-s", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    limits = Limits(bench_s=arguments.bench_s)
    async with LocalSandbox((arguments.device,), limits=limits) as sandbox:
        facts = await sandbox.fingerprint(arguments.device)
        print(f"{facts['name']}, torch {facts['torch']}, Python {platform.python_version()}")
        bench = Bench(sandbox, arguments.device)
        await bench.overhead(arguments.runs)
        if arguments.device != "cpu":
            await bench.large()
        await bench.agree(arguments.aa, "")
        if arguments.device == "cpu":
            other = multiprocessing.Process(target=_burn, args=(0,), daemon=True)
            other.start()
            await bench.agree(arguments.aa, ", other core busy,")
            other.kill()
    if arguments.json:
        arguments.json.write_text(json.dumps({"facts": facts, **bench.raw}))


if __name__ == "__main__":
    anyio.run(main)
