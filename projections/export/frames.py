"""Flat tables over many runs: ``runs``, ``nodes``, ``calls``, ``evaluations``,
``implementations`` and ``signatures``.

Records are rows. Those of nodes, calls and evaluations have the columns of the log's SQL views
of the same names, with the run's uid for its number in one file::

    from agents.replies.edits import edits_of
    from events.reader import LogReader
    from projections.export.frames import columns, frames_of

    with LogReader(Path("runs/demo.db")) as log:
        frames = frames_of([log], edits_of)  # without it, edits are not counted
    pandas.DataFrame(columns(frames.nodes))  # or polars, or nothing at all
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    EvaluationFinished,
    NodeSelected,
    ReplyParsed,
    ReplyRejected,
    RunStarted,
)
from events.envelope import Event
from events.outcomes import Correct
from projections.candidate.labels import labels_of
from projections.candidate.memory import memory_ratio
from projections.export.records import (
    CallRecord,
    EvaluationRecord,
    Frames,
    ImplementationRecord,
    NodeRecord,
    RunRecord,
    SignatureRecord,
    columns,
)
from projections.run.overview import Overview
from projections.run.spend import cost_usd_micros
from projections.run.summary import Summary
from projections.search.instructions import Edits, instructions_of
from projections.search.signatures import signatures_of
from projections.search.tree import ROOT, Node, Tree

__all__ = [
    "CallRecord", "EvaluationRecord", "Frames", "FramesFold", "ImplementationRecord", "Log",
    "NodeRecord", "RunRecord", "SignatureRecord", "columns", "frames_of",
]  # fmt: skip


class _Run(Protocol):
    @property
    def run_id(self) -> int: ...
    @property
    def uid(self) -> str: ...


class Log(Protocol):
    """What ``events.reader.LogReader`` is."""

    @property
    def path(self) -> Any: ...
    def runs(self) -> Sequence[_Run]: ...
    def events(self, run_id: int, /) -> Iterator[Event]: ...
    def text(self, sha256: str, /) -> str: ...


EditsOf = Callable[[Tree, Callable[[str], str]], Mapping[int, Edits]]


def frames_of(logs: Iterable[Log], edits_of: EditsOf | None = None) -> Frames:
    """All runs of all logs. A run without an end counts as interrupted.

    ``edits_of`` counts edits by node out of a log's texts, as ``agents.replies.edits.edits_of``
    does.
    """
    frames = Frames()
    for log in logs:
        for run in log.runs():
            fold = FramesFold()
            for event in log.events(run.run_id):
                fold.apply(event)
            edits = edits_of(fold.overview.tree, log.text) if edits_of else {}
            one = fold.frames(fold.overview.summary(run=run.uid, log=str(log.path)), edits)
            for name in Frames.__struct_fields__:
                getattr(frames, name).extend(getattr(one, name))
    return frames


class FramesFold:
    """A fold over one run's events that owns mutable state."""

    def __init__(self) -> None:
        self.overview = Overview()
        self._started_us: int | None = None
        self._selected: dict[int, tuple[str, int]] = {}
        self._ended_us: dict[int, int] = {}
        self._calls: dict[tuple[int, int], dict[str, Any]] = {}
        self._judged: dict[int, dict[str, Any]] = {}
        self._evaluations: list[tuple[Event, EvaluationFinished]] = []

    def apply(self, event: Event) -> None:
        """Fold one event."""
        self.overview.apply(event)
        body = event.body
        match body:
            case RunStarted():
                self._started_us = event.ts_us
            case NodeSelected():
                self._selected[body.attempt] = body.rule, event.ts_us
            case AttemptAbandoned():
                self._ended_us[body.attempt] = event.ts_us
            case EvaluationFinished():
                self._ended_us[body.attempt] = event.ts_us
                self._evaluations.append((event, body))
            case AgentCalled():
                self._calls[body.call, body.try_] = _asked(event, body)
            case AgentReplied():
                self._calls.get((body.call, body.try_), {}).update(self._replied(body))
            case AgentFailed():
                self._calls.get((body.call, body.try_), {}).update(self._failed(body))
            case ReplyParsed():
                self._judged[body.call] = {"parsed": True}
            case ReplyRejected():
                self._judged[body.call] = {"parsed": False, "rejection": body.reason}

    def frames(self, summary: Summary, edits: Mapping[int, Edits]) -> Frames:
        """``summary`` is the overview's, which knows how the log is called; ``edits`` are those
        that were counted, by node."""
        run = summary.run
        return Frames(
            runs=[self._run(summary)],
            nodes=[self._node(run, node) for node in self.overview.tree.nodes.values()],
            calls=[
                CallRecord(run=run, **call, **(self._judged.get(call["call"], {})
                           if call.get("state") == "replied" else {}))
                for call in self._calls.values()
            ],
            evaluations=[_evaluation(run, event, body) for event, body in self._evaluations],
            implementations=[
                _implementation(run, each.id, number, node, edits.get(node.id))
                for each in instructions_of(self.overview.tree)
                for number, node in enumerate(each.attempts, 1)
            ],
            signatures=list(_signatures(run, self.overview)),
        )  # fmt: skip

    def _replied(self, body: AgentReplied) -> dict[str, Any]:
        return {
            "state": "replied", "stop_reason": body.stop_reason, "served_by": body.served_by,
            "canned": body.canned, "reused": body.reused, "latency_ms": body.latency_ms,
            **self._used(body), "reply_sha256": body.reply_sha256,
        }  # fmt: skip

    def _failed(self, body: AgentFailed) -> dict[str, Any]:
        return {
            "state": "failed", "error": body.error, "message": body.message, **self._used(body)
        }  # fmt: skip

    def _used(self, body: AgentReplied | AgentFailed) -> dict[str, Any]:
        usage = {} if body.usage is None else msgspec.structs.asdict(body.usage)
        return {**usage, "usd_micros": self._cost(body)}

    def _cost(self, body: AgentReplied | AgentFailed) -> int | None:
        if isinstance(body, AgentReplied) and body.reused is not None:
            return 0
        started = self.overview.started
        price = started.prices.get(self._calls[body.call, body.try_]["model"]) if started else None
        if price is None or body.usage is None:
            return None
        return cost_usd_micros(body.usage, price)

    def _node(self, run: str, node: Node) -> NodeRecord:
        root_ms = self.overview.tree.root.runtime_ms
        rule, selected_us = self._selected.get(node.id, (None, self._started_us or 0))
        return NodeRecord(
            run=run, node=node.id, parent=node.parent, rule=rule, repair=node.repair,
            status=node.status,
            outcome=str(node.outcome.__struct_config__.tag) if node.outcome else None,
            reason=node.outcome.reason if node.outcome else node.reason,
            runtime_ms=node.runtime_ms,
            speedup=root_ms / node.runtime_ms if root_ms and node.runtime_ms else None,
            eager_speedup=getattr(node.outcome, "eager_speedup", None),
            labels=",".join(node.labels),
            # Until its own is written, an attempt has none; the root's is the task.
            source_sha256=node.source_sha256, source_key=node.source_key,
            selected_us=selected_us, ended_us=self._ended_us.get(node.id),
        )  # fmt: skip

    def _run(self, summary: Summary) -> RunRecord:
        started, best, total = self.overview.started, summary.best, self.overview.spend.total
        config = started.config if started else {}
        sandbox, search = config.get("sandbox", {}), config.get("search", {})
        root, fork = self.overview.tree.nodes.get(ROOT), self.overview.fork
        return RunRecord(
            run=summary.run, log=summary.log,
            task=started.task_name if started else None,
            task_sha256=started.task_sha256 if started else None,
            started_us=self._started_us,
            parent=fork.parent if fork else None, parent_seq=fork.at if fork else None,
            status=summary.status, reason=summary.reason,
            method=search.get("method"), seed=started.seed if started else None,
            model=config.get("model"), device=sandbox.get("device"),
            device_name=started.device.get("name") if started else None,
            protocol=sandbox.get("protocol"), canned=summary.canned, attempts=summary.attempts,
            attempts_by_agents=summary.attempts_by_agents,
            abandoned=summary.abandoned, compiled=summary.compiled, correct=summary.correct,
            eager_ms=root.runtime_ms if root else None,
            best_node=best.node if best else None, best_ms=best.runtime_ms if best else None,
            best_speedup=best.speedup if best else None,
            best_labels=",".join(best.labels) if best else "",
            score=self.overview.tree.score,
            best_eager_speedup=best.eager_speedup if best else None,
            usd_micros=total.usd_micros,
            unpriced_calls=total.unpriced_calls, input_tokens=total.input_tokens,
            output_tokens=total.output_tokens, wall_s=summary.wall_s,
        )  # fmt: skip


def _asked(event: Event, body: AgentCalled) -> dict[str, Any]:
    return {
        "call": body.call, "try_": body.try_, "node": body.attempt, "run_seq": event.run_seq,
        "epoch": event.epoch, "ts_us": event.ts_us, "role": body.role, "ask": body.ask,
        "model": body.model, "template": body.template,
    }  # fmt: skip


def _implementation(
    run: str, instruction: int, number: int, node: Node, edits: Edits | None
) -> ImplementationRecord:
    return ImplementationRecord(
        run=run, instruction=instruction, number=number, node=node.id, status=node.status,
        outcome=str(node.outcome.__struct_config__.tag) if node.outcome else None,
        runtime_ms=node.runtime_ms,
        edits_inside=edits.inside if edits else None,
        edits_allowed=edits.allowed if edits else None,
        edits_outside=edits.outside if edits else None,
        inside_share=edits.share if edits else None,
        grounded=edits.grounded if edits else None,
    )  # fmt: skip


def _signatures(run: str, overview: Overview) -> Iterator[SignatureRecord]:
    found = signatures_of(overview)
    for gap in found.gaps:
        yield SignatureRecord(
            run=run, signature="planning_implementation_gap", node=gap.instruction,
            count=len(gap.attempts), closed_by=gap.closed_by,
        )  # fmt: skip
    for dead in found.dead_branches:
        yield SignatureRecord(
            run=run, signature="dead_branch", node=dead.node, count=dead.children,
            pruned=dead.pruned,
        )  # fmt: skip
    if found.root.dominates:
        yield SignatureRecord(
            run=run, signature="root_dominance", node=ROOT, count=found.root.held_for
        )


_OF_CORRECT = (
    "runtime_ms", "speedup", "ratio", "ratio_low", "ratio_high", "pairs", "candidate_ms",
    "baseline_ms", "bounded_speedup", "eager_speedup", "eager_low", "eager_high", "eager_ms",
    "eager_baseline_ms", "first_call_ms",
    "peak_bytes", "reference_peak_bytes",
)  # fmt: skip


def _evaluation(run: str, event: Event, body: EvaluationFinished) -> EvaluationRecord:
    outcome = body.outcome
    correct = outcome if isinstance(outcome, Correct) else None
    of_correct: dict[str, Any] = {name: getattr(correct, name, None) for name in _OF_CORRECT}
    stages = ("guard", "compile", "lease", "check", "bench")
    stages_s: dict[str, Any] = {f"{stage}_s": body.timings_s.get(stage) for stage in stages}
    return EvaluationRecord(
        run=run, node=body.attempt, run_seq=event.run_seq, ts_us=event.ts_us,
        outcome=str(outcome.__struct_config__.tag), reason=outcome.reason,
        **of_correct,
        memory_ratio=memory_ratio(of_correct["peak_bytes"], of_correct["reference_peak_bytes"]),
        labels=",".join(labels_of(outcome, body.notes)),
        sets=msgspec.json.encode(correct.sets if correct else []).decode(),
        max_abs_error=getattr(outcome, "max_abs_error", None),
        protocol=body.protocol, device=body.device, queue_s=body.queue_s,
        **stages_s,
        compile_log_sha256=body.compile_log_sha256, run_log_sha256=body.run_log_sha256,
        registers=max((kernel.registers for kernel in body.resources), default=None),
        spill_bytes=max((kernel.spill_bytes for kernel in body.resources), default=None),
        resources=msgspec.json.encode(body.resources).decode(), reused=body.reused,
        same_as=body.same_as, cached=body.cached,
    )  # fmt: skip
