"""A run in which everything happens that a table has a column for."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.config import Config
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    BaselineMeasured,
    BaselineRequested,
    Body,
    CallParams,
    Draws,
    EvaluationFinished,
    EvaluationRequested,
    NodeSelected,
    Price,
    PromptRendered,
    ReplyParsed,
    ReplyRejected,
    RunResumed,
    RunStarted,
    RunStopped,
    Usage,
)
from events.envelope import Blob, sha256_hex
from events.outcomes import CompileFailed, Correct, KernelResources, Outcome, WrongResult
from events.writer import LogWriter

__all__ = ["PRICE", "write_rich"]

TASK = "class Model: ..."
PRICE = Price(
    input_usd_micros_per_mtok=3_000_000, output_usd_micros_per_mtok=15_000_000,
    cache_read_usd_micros_per_mtok=300_000, cache_write_usd_micros_per_mtok=3_750_000,
)  # fmt: skip


RESOURCES = [
    KernelResources(kernel="rows", registers=40, spill_store_bytes=8, spill_load_bytes=24),
    KernelResources(kernel="ends", registers=64),
]


class _Run:
    """Appends to a log, with a clock that goes on by a second an event."""

    def __init__(self, log: LogWriter, run_id: int) -> None:
        self.log = log
        self.run_id = run_id
        self.call = 0

    def add(self, body: Body, *blobs: Blob) -> None:
        self.last = self.log.append(self.run_id, body, blobs)

    def select(self, attempt: int, node: int, *, repair: bool = False) -> None:
        self.add(NodeSelected(attempt=attempt, node=node, rule="explore", repair=repair, visit=0,
                              draws=Draws(), eligible=1, state_digest="d"))  # fmt: skip

    def ask(
        self, attempt: int, role: str, *, try_: int = 1, model: str = "m", ask: int = 0
    ) -> None:
        self.call += try_ == 1
        self.add(AgentCalled(
            attempt=attempt, role=role, call=self.call, try_=try_, ask=ask, window=[0], pool=[0],
            model=model, params=CallParams(max_tokens=9), template="main",
        ))  # fmt: skip
        parts = [Blob.text("system", "Be fast."), Blob.text("task", f"{TASK} # {attempt}")]
        self.add(PromptRendered(attempt=attempt, role=role, call=self.call, try_=try_,
                                request_sha256=f"{self.call:064}",
                                parts=[part.name for part in parts]), *parts)  # fmt: skip

    def reply(self, attempt: int, role: str, text: str, *, try_: int = 1,
              canned: bool = False) -> None:  # fmt: skip
        reply = Blob.text("reply", text)
        self.add(AgentReplied(
            attempt=attempt, role=role, call=self.call, try_=try_, latency_ms=1500,
            usage=Usage(input_tokens=100, output_tokens=7, cache_read_tokens=11),
            stop_reason="end_turn", served_by="m-1", sent={}, reply_sha256=reply.sha256,
            canned=canned,
        ), reply)  # fmt: skip

    def plan(self, attempt: int, advice: str) -> None:
        self.ask(attempt, "plan")
        self.reply(attempt, "plan", f"I plan: {advice}")
        texts = Blob.text("advice", advice), Blob.text("annotated", f"# {advice}\n{TASK}")
        self.add(ReplyParsed(attempt=attempt, role="plan", call=self.call, via="fence", anchors=1,
                             advice_sha256=texts[0].sha256,
                             annotated_sha256=texts[1].sha256), *texts)  # fmt: skip

    def source(self, attempt: int, role: str, source: str, *, try_: int = 1) -> None:
        self.reply(attempt, role, f"```python\n{source}```", try_=try_)
        texts = Blob.text("source", source), Blob.text("explanation", "Because.")
        self.add(ReplyParsed(attempt=attempt, role=role, call=self.call, via="fence",
                             source_sha256=texts[0].sha256, source_key=f"key of {source}",
                             explanation_sha256=texts[1].sha256), *texts)  # fmt: skip
        self.add(EvaluationRequested(attempt=attempt, source_sha256=texts[0].sha256, seed=1))

    def verdict(self, attempt: int, outcome: Outcome, log: str = "") -> None:
        blobs = [Blob.text("compile_log", log)] if log else []
        self.add(EvaluationFinished(
            attempt=attempt, outcome=outcome, protocol="strict", queue_s=0.5, device="cpu",
            timings_s={"guard": 0.1, "compile": 2.0, "lease": 1.0, "check": 0.25, "bench": 0.5},
            isolation=[], compile_log_sha256=blobs[0].sha256 if blobs else None,
            resources=RESOURCES if isinstance(outcome, Correct) else [],
        ), *blobs)  # fmt: skip


def correct(
    runtime_ms: float, *labels: str, peak_mb: int | None = None, reference_mb: int | None = None
) -> Correct:
    ratio = runtime_ms / 10.0
    return Correct(
        runtime_ms=runtime_ms, speedup=1 / ratio, ratio=ratio, ratio_low=ratio * 0.9,
        ratio_high=ratio * 1.1, pairs=10, candidate_ms=runtime_ms, baseline_ms=10.0,
        labels=list(labels), peak_bytes=None if peak_mb is None else peak_mb << 20,
        reference_peak_bytes=None if reference_mb is None else reference_mb << 20,
    )  # fmt: skip


async def write_rich(path: Path) -> None:
    """One run in two processes: six attempts with repairs, a retry, re-asking, an abandoned one
    and one in flight; model ``m`` has a price, ``free`` has none."""
    clock = iter(range(1_000_000, 10**12, 1_000_000))
    config = msgspec.to_builtins(Config(model="m"))
    async with LogWriter(path, clock_us=lambda: next(clock)) as log:
        run = _Run(log, log.create_run("rich"))
        task = Blob.text("task", TASK)
        run.add(RunStarted(
            title="rich", config=config, task_name="rich.py", task_sha256=sha256_hex(task.data),
            templates={}, seed=0, prices={"m": PRICE}, prices_dated="2026-11-21",
            versions={}, device={"name": "thing"}, canned=False,
        ), task)  # fmt: skip
        run.add(BaselineRequested())
        run.add(BaselineMeasured(runtime_ms=10.0, spread=0.01, repetitions=9, timings_s={},
                                 isolation=[]))  # fmt: skip
        run.select(1, 0)
        run.plan(1, "Fuse the loops.")
        run.ask(1, "code")
        run.source(1, "code", "class ModelNew: one\n")
        log_text = "kernel.cu(3): error: identifier foo_bar is undefined"
        run.verdict(1, CompileFailed(reason="'kernel.cu' line 3: no"), log_text)
        run.select(2, 1, repair=True)
        run.ask(2, "debug")
        run.add(AgentFailed(attempt=2, role="debug", call=run.call, try_=1, error="overloaded",
                            message="try 529 later", retryable=True,
                            usage=Usage(input_tokens=70, output_tokens=1)))  # fmt: skip
        run.ask(2, "debug", try_=2)
        run.source(2, "debug", "class ModelNew: two\n", try_=2)
        run.verdict(2, correct(5.0, peak_mb=1, reference_mb=3))
        run.select(3, 2)
        run.plan(3, "Use float4.")
        run.ask(3, "code", model="free")
        run.source(3, "code", "class ModelNew: three\n")
        run.verdict(3, correct(20.0))
        run.select(4, 2)
        for ask in (0, 1):
            run.ask(4, "plan", ask=ask)
            run.reply(4, "plan", "no idea")
            run.add(ReplyRejected(attempt=4, role="plan", call=run.call, reason=f"no plan {ask}"))
        run.add(AttemptAbandoned(attempt=4, reason="no plan"))
        run.select(5, 2)
        run.ask(5, "plan")
    async with LogWriter(path, clock_us=lambda: next(clock)) as log:
        run.log = log
        run.add(RunResumed(versions={}))
        run.ask(5, "plan", try_=2)
        run.reply(5, "plan", "I plan: Use shared memory.", try_=2)
        advice = Blob.text("advice", "Use shared memory.")
        run.add(ReplyParsed(attempt=5, role="plan", call=run.call, via="fence",
                            advice_sha256=advice.sha256), advice)  # fmt: skip
        run.ask(5, "code")
        run.source(5, "code", "class ModelNew: two\n")
        run.verdict(5, correct(4.0, "not-gated", "fallback", peak_mb=150, reference_mb=64))
        run.select(6, 5)
        run.plan(6, "Vectorise.")
        run.ask(6, "code")
        run.source(6, "code", "class ModelNew: six\n")
        run.verdict(6, WrongResult(reason="error 1.5e-01 (3 of 8)", trial=1))
        run.select(7, 5)
        run.ask(7, "plan")
        run.add(RunStopped(status="interrupted", reason="SIGINT", best=5))
        await log.durable(run.last)
