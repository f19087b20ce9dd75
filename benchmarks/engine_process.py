"""An engine that judges what a pipe says is next: one process of ``engines_together``.

    python -m benchmarks.engine_process    with a ``Assignment`` on standard input

It judges one candidate of each kind, prints ``ready``, and waits at the pipe, which all engines
share: each byte is the number of the next candidate. It prints a ``Judgement`` for each, and ends
with the pipe.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from benchmarks.first_verdict import CASES
from benchmarks.sandbox_throughput import TASK
from gpu_sandbox.api.evaluator import (
    EvaluationRequest,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
)
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox

__all__ = ["MOST_CANDIDATES", "READY", "Assignment", "Judgement", "Pair", "kinds_on", "pairs_of"]

HONEST = Path(__file__).parent / "honest"
GPU_KINDS = {**CASES, "autotuned": "autotuned_softmax"}
CPU_KINDS = {
    "torch": "torch.add(x * 1.5, y, alpha=0.25)",
    "in place": "y.mul(0.25).add_(x, alpha=1.5)",
}
"""What a candidate returns for the task of ``sandbox_throughput``."""
MODEL = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return {expression}
"""
READY = "ready\n"
MOST_CANDIDATES = 255  # one byte each


class Pair(msgspec.Struct, frozen=True):
    """A task and a candidate, by the kind's name."""

    kind: str
    task: str
    candidate: str

    def marked(self, mark: str) -> str:
        """The candidate's source, unlike that with any other mark."""
        return f"{self.candidate}\n# {mark}\n"


class Assignment(msgspec.Struct, frozen=True):
    """What an engine is told on its standard input: one line of JSON."""

    device: str
    workers: int
    cache: str
    bench_s: float | None
    pairs: list[Pair]
    mark: str
    order: int
    """The descriptor to read from which candidate is the next one."""


class Judgement(msgspec.Struct, frozen=True):
    """A verdict; moments are of the host's monotonic clock, in seconds."""

    kind: str
    asked: float
    ended: float
    outcome: str
    reason: str
    queue_s: float
    timings_s: dict[str, float]


def kinds_on(device: str) -> list[str]:
    return list(CPU_KINDS if device == "cpu" else GPU_KINDS)


def pairs_of(device: str, kinds: Sequence[str]) -> list[Pair]:
    """In the order of ``kinds``. Raises ``KeyError`` for one that there is not."""
    if device == "cpu":
        task = TASK.format(shape=(256, 512))
        return [Pair(kind, task, MODEL.format(expression=CPU_KINDS[kind])) for kind in kinds]
    folders = {kind: HONEST / GPU_KINDS[kind] for kind in kinds}
    return [
        Pair(kind, (place / "task.py").read_text(), (place / "kernel.py").read_text())
        for kind, place in folders.items()
    ]


async def judge(sandbox: LocalSandbox, device: str, pair: Pair, mark: str) -> Judgement:
    request = EvaluationRequest(
        task_name=f"{pair.kind}.py", task_source=pair.task, candidate_source=pair.marked(mark),
        device=device, protocol="strict", seed=1,
    )  # fmt: skip
    asked = time.monotonic()
    try:
        verdict = await sandbox.evaluate(request)
    except (PrerequisiteMissing, SandboxFault, TaskUnusable) as error:
        failed = type(error).__name__
        return Judgement(pair.kind, asked, time.monotonic(), failed, str(error), 0.0, {})
    outcome = verdict.outcome
    return Judgement(
        pair.kind, asked, time.monotonic(), str(outcome.__struct_config__.tag), outcome.reason,
        verdict.queue_s, verdict.timings_s,
    )  # fmt: skip


async def serve(assignment: Assignment) -> None:
    """Judge one candidate of each kind, say ``ready``, then whatever the pipe says is next."""
    device, pairs, mark = assignment.device, assignment.pairs, assignment.mark
    cache, limits = Path(assignment.cache), Limits(bench_s=assignment.bench_s)

    async def work(sandbox: LocalSandbox) -> None:
        while number := await anyio.to_thread.run_sync(os.read, assignment.order, 1):
            pair = pairs[number[0] % len(pairs)]
            judgement = await judge(sandbox, device, pair, f"{mark} {number[0]}")
            print(msgspec.json.encode(judgement).decode(), flush=True)

    os.set_inheritable(assignment.order, False)
    async with LocalSandbox((device,), limits=limits, cache=cache) as sandbox:
        for pair in pairs:
            first = await judge(sandbox, device, pair, f"{mark} of {os.getpid()}")
            if first.outcome != "correct":
                sys.exit(f"{first.kind}: {first.outcome}: {first.reason}")
        print(READY, end="", flush=True)
        async with anyio.create_task_group() as group:
            for _ in range(assignment.workers):
                group.start_soon(work, sandbox)


if __name__ == "__main__":
    anyio.run(serve, msgspec.json.decode(sys.stdin.read(), type=Assignment))
