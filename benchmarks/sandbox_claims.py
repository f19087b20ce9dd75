"""How surely a forged time is found out, by what a call takes; and if honest ones are believed.

    python -m benchmarks.sandbox_claims [--device cpu|cuda:0] [--runs 10] [--claims 0.55,0.75]
        [--kernels PATTERN] [--json FILE]

Candidates are the reference itself. The honest one says what it took; a forged one says, wherever
the candidate's process builds its answer, that it took that share of it. A row counts verdicts in
which the whole interval lies beyond 1.15 times the speed of the reference, and among the honest
ones those that were doubted: there should be none of either, and of calls of some microseconds
there are. ``docs/sandbox/limits.md`` says by how much a claim can be off and not be found out; this
measures it. On a GPU the last row says what its events read of nothing and of filling memory, in
which hosts differ, and of which short calls mostly consist.

The peer is who believes every claim, as harnesses with their clock in the candidate's process do.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import torch

from benchmarks.sandbox_verdicts import itself, request_for, task
from benchmarks.table import Table
from events.outcomes import Correct
from gpu_sandbox.api.evaluator import Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.verifier.backends.lookup import backend_of, events_of

_BEYOND = 1.15
_FILLED = {"4 bytes": 4, "64 KB": 1 << 16, "2 MB": 1 << 21}
_DOUBTS = ("doubted at first", "timing disputed")
_FORGED = """

import sys
clock = sys.modules["gpu_sandbox.worker.timed_calls"]

def _shave(name):
    real = getattr(clock, name)

    def made(**fields):
        for key, value in fields.items():
            if key.endswith("_ns") and isinstance(value, int):
                fields[key] = int(value * {claim})
            elif key.endswith("_ns"):
                fields[key] = type(value)(int(v * {claim}) for v in value)
        return real(**fields)

    setattr(clock, name, made)


_shave("Timed")
_answer = sys.modules["gpu_sandbox.ipc.cpu_call_messages"].Answer
_told = _answer.encode
_answer.encode = lambda self, elapsed_ns, *rest: _told(self, int(elapsed_ns * {claim}), *rest)
"""


def _chain(operations: int, shape: str) -> str:
    """Elementwise ones, each of which reads what the one before has written."""
    expression = "a"
    for _ in range(operations):
        expression = f"torch.sin({expression})"
    return task(expression, shape)


def _weighed(megabytes: int) -> str:
    """What all calls read is the same, and stays in the cache from one to the next behind gates."""
    size = f"{256 * megabytes}, 1024"
    return task("a @ self.weight.t()", "1, 1024").replace(
        "    def forward",
        "    def __init__(self):\n"
        "        super().__init__()\n"
        f"        self.weight = nn.Parameter(torch.rand({size}))\n\n"
        "    def forward",
    )


_REDUCED = task("(a * b + a) / (a * b + a).abs().mean(dim=-1, keepdim=True)", *["512, 1024"] * 2)
KERNELS = {
    "cpu": {
        "sin, 64 KB": _chain(1, "16, 1024"),
        "sin, 256 KB": _chain(1, "64, 1024"),
        "sin, 1 MB": _chain(1, "256, 1024"),
        "4 x sin, 1 MB": _chain(4, "256, 1024"),
        "16 x sin, 1 MB": _chain(16, "256, 1024"),
    },
    "cuda": {
        "sin, 64 KB": _chain(1, "16, 1024"),
        **{f"{n} x sin, 2 MB": _chain(n, "512, 1024") for n in (1, 2, 4, 8, 16, 32)},
        **{
            f"sums of {n} MB": task("a.sum(dim=-1)", f"{256 * n}, 1024")
            for n in (1, 2, 4, 8, 16, 32)
        },
        "five operations, 4 MB": _REDUCED,
        **{f"product with {n} MB of weights": _weighed(n) for n in (4, 16)},
        **{f"sin, {n} MB": _chain(1, f"{256 * n}, 1024") for n in (8, 16, 32, 64)},
    },
}


class Claims:
    """Verdicts on one device, as rows."""

    def __init__(self, sandbox: LocalSandbox, device: str, table: Table) -> None:
        self._sandbox = sandbox
        self._device = device
        self._table = table
        self.raw: dict[str, Any] = {}

    async def look(self, name: str, source: str, claims: list[float], runs: int) -> None:
        """Honest and forged in turn: what the machine does in the meantime meets them all."""
        seen: dict[float, list[Verdict]] = {claim: [] for claim in (1.0, *claims)}
        for run, claim in _in_turn(runs, list(seen)):
            self._table.progress(f"{name}, claims {claim:.0%}, {run + 1} of {runs}")
            seen[claim].append(await self._judge(source, claim, run))
        for claim, verdicts in seen.items():
            self._row(name, claim, verdicts)

    async def _judge(self, source: str, claim: float, seed: int) -> Verdict:
        candidate = itself(source) + ("" if claim == 1.0 else _FORGED.format(claim=claim))
        return await self._sandbox.evaluate(request_for(source, candidate, self._device, seed))

    def _row(self, name: str, claim: float, verdicts: list[Verdict]) -> None:
        judged = [v.outcome for v in verdicts if isinstance(v.outcome, Correct)]
        odd = [str(v.outcome) for v in verdicts if not isinstance(v.outcome, Correct)]
        beyond = [o for o in judged if 1 / o.ratio_high > _BEYOND]
        doubted = [v for v in verdicts if any(n.startswith(_DOUBTS) for n in v.notes)]
        ungated = [o for o in judged if "not-gated" in o.labels]
        self.raw[f"{name}, {claim}"] = [
            {
                "outcome": type(v.outcome).__name__,
                "speedup": v.outcome.speedup if isinstance(v.outcome, Correct) else None,
                "bounded": v.outcome.bounded_speedup if isinstance(v.outcome, Correct) else None,
                "notes": list(v.notes),
                "timings_s": v.timings_s,
            }
            for v in verdicts
        ]
        if not judged:
            self._table.row(f"{name}: {claim:.0%}", "-", odd[0])
            return
        each_us = statistics.median(o.baseline_ms for o in judged) * 1e3
        speeds = sorted(o.speedup for o in judged)
        told = f"{len(beyond)} of {len(verdicts)} beyond, {len(doubted)} doubted"
        told += f", {len(ungated)} not gated" if ungated else ""
        told += f"; {speeds[0]:.2f}x to {speeds[-1]:.2f}x"
        told += f"; {odd[0]}" if odd else ""
        which = "honest" if claim == 1.0 else f"claims {claim:.0%}"
        believed = "1.00x" if claim == 1.0 else f"{1 / claim:.2f}x"
        self._table.row(f"{name} ({each_us:.3g} us): {which}", "0 beyond", told, believed)


def _readings(device: torch.device) -> str:
    """In this process."""
    filled = {name: backend_of(device).least_write_ns(size) / 1e3 for name, size in _FILLED.items()}
    told = [f"{us:.2g} us of filling {name}" for name, us in filled.items()]
    return ", ".join([f"{events_of(device).reading_ns() / 1e3:.2g} us of nothing", *told])


def _in_turn(runs: int, claims: list[float]) -> Iterator[tuple[int, float]]:
    for run in range(runs):
        for claim in claims:
            yield run, claim


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=int, default=10, help="verdicts of each")
    parser.add_argument("--claims", default="0.55,0.75", help="shares of the truth, by comma")
    parser.add_argument("--kernels", default="", help="those with this pattern")
    parser.add_argument("--bench-s", type=float, default=1.0, help="seconds of timing a verdict")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    claims = [float(part) for part in chosen.claims.split(",")]
    async with LocalSandbox((chosen.device,), limits=Limits(bench_s=chosen.bench_s)) as sandbox:
        facts = await sandbox.fingerprint(chosen.device)
        title = f"{facts['name']}, torch {facts['torch']}, Python {platform.python_version()}"
        table = Table(title, last="claimed")
        found = Claims(sandbox, chosen.device, table)
        for name, source in KERNELS[chosen.device.split(":")[0]].items():
            if re.search(chosen.kernels, name):
                await found.look(name, source, claims, chosen.runs)
    device = torch.device(chosen.device)
    if device.type == "cuda":
        table.row("what events read", "-", _readings(device))
    if chosen.json:
        chosen.json.write_text(json.dumps({"facts": facts, "rows": table.rows, **found.raw}))


if __name__ == "__main__":
    anyio.run(main)
