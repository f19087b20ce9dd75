"""A run at a glance: how far it came, what it found, what it cost, how it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    BaselineMeasured,
    DeviceQuarantined,
    EvaluationFinished,
    EvaluationRequested,
    NodeSelected,
    ReplyDeferred,
    RunForked,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    TaskRejected,
)
from events.envelope import Event
from events.outcomes import CompileFailed, Correct, NoCandidate, ScoredBy
from projections.candidate.memory import memory_ratio
from projections.run.mail import Mail
from projections.run.pool import Pool
from projections.run.spend import RoleSpend, Spend
from projections.run.steering import Steering
from projections.run.summary import Awaited, Best, Fork, Summary
from projections.search.planners import Planners
from projections.search.tree import ROOT, Node, Tree

__all__ = ["Overview", "overview_of"]


class Overview:
    """A fold over one run's events that owns mutable state."""

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        """As it is configured now: a fork may have changed that."""
        self.fork: Fork | None = None
        self._shared = RoleSpend()
        self._shared_evaluations: set[int] = set()
        self.tree = Tree()
        self.spend = Spend()
        self.planners = Planners()
        self.pool = Pool()
        self.steering = Steering()
        self.mail = Mail()
        self.status = "running"
        self.reason = ""
        self.ended = 0
        self.abandoned = 0
        self.extra_attempts = 0
        self.stages: dict[int, str] = {}
        """Attempt in flight → what it waits for: a role's name, with ``, awaited`` behind it where
        its reply comes later, or ``evaluation``."""
        self.baselines: dict[str, BaselineMeasured] = {}
        """By kind, eager first."""
        self.evaluations: dict[int, EvaluationFinished] = {}
        self.root_held_for = 0
        """Candidates of agents that were judged before the first that was faster than the root."""
        self.first_faster: int | None = None
        """That one; None while there is none."""
        self.quarantined: dict[str, str] = {}
        """Devices that the present process uses no more, and why."""
        self.failed_calls = 0
        self.wall_us = 0
        self.run_seq = 0
        self._epoch = 0
        self._last_us = 0

    def apply(self, event: Event) -> None:
        """Fold one event."""
        body = event.body
        self._clock(event)
        self.tree.apply(body)
        self.planners.apply(body, self.tree, self.spend.apply(body))
        self.pool.apply(event)
        self.steering.apply(body)
        self.mail.apply(body)
        match body:
            case RunStarted():
                self.started = body
            case RunForked():
                self._fork(body)
            case RunResumed():
                self.status, self.reason = "running", ""
                self.quarantined = {}
                self.extra_attempts += body.extra_attempts
            case BaselineMeasured():
                self.baselines[body.baseline] = body
            case TaskRejected():
                self.reason = body.reason
            case DeviceQuarantined():
                self.quarantined[body.device] = body.reason
            case NodeSelected():
                self.stages[body.attempt] = "selected"
            case AgentCalled():
                self.stages[body.attempt] = body.role
            case ReplyDeferred():
                self.stages[body.attempt] = f"{body.role}, awaited"
            case AgentReplied():
                self.stages[body.attempt] = body.role
            case AgentFailed():
                self.failed_calls += 1
            case EvaluationRequested():
                self.stages[body.attempt] = "evaluation"
            case EvaluationFinished():
                self._finished(body)
            case AttemptAbandoned():
                self.stages.pop(body.attempt, None)
                self.ended += 1
                self.abandoned += 1
            case RunPaused():
                self.status, self.reason = "paused", body.reason
            case RunStopped():
                self.status, self.reason = body.status, body.reason

    def _fork(self, body: RunForked) -> None:
        assert self.started is not None
        self.started = body.applied(self.started)
        self.status, self.reason = "running", ""
        self.quarantined = {}
        self.extra_attempts = 0
        self.fork = Fork(
            parent=body.parent,
            at=body.at,
            changed=body.changed,
            replies=body.replies,
            evaluations=body.evaluations,
            shared_attempts=self.ended,
            shared_cost_usd=self.spend.total.usd_micros / 1_000_000,
        )
        self._shared = self.spend.total
        self._shared_evaluations = set(self.evaluations)

    def _clock(self, event: Event) -> None:
        # Time between two processes is not worked; a clock that jumps back adds none.
        if event.epoch == self._epoch:
            self.wall_us += max(0, event.ts_us - self._last_us)
        self._epoch, self._last_us, self.run_seq = event.epoch, event.ts_us, event.run_seq

    def _finished(self, body: EvaluationFinished) -> None:
        self.stages.pop(body.attempt, None)
        self.evaluations[body.attempt] = body
        self.ended += 1
        root = self.tree.nodes.get(ROOT)
        if self.first_faster is None and not self._is_given(body.attempt):
            outcome, score_ms = body.outcome, None
            if isinstance(outcome, Correct):
                score_ms = outcome.runtime_by(self.tree.score)
            if score_ms and root and root.score_ms and score_ms < root.score_ms:
                self.first_faster = body.attempt
            else:
                self.root_held_for += 1

    def _is_given(self, attempt: int) -> bool:
        node = self.tree.nodes.get(attempt)
        return node is not None and node.made == "user"

    @property
    def by_agents(self) -> int:
        """Attempts that ended, without the user's kernel, which says nothing of a model."""
        return self.ended - sum(map(self._is_given, self.evaluations))

    @property
    def compiled(self) -> int:
        """Evaluated candidates of agents that imported and built."""
        return sum(not isinstance(e.outcome, _UNBUILT) for e in self._verdicts_on_agents())

    @property
    def correct(self) -> int:
        """Candidates of agents that are."""
        return sum(isinstance(e.outcome, Correct) for e in self._verdicts_on_agents())

    def _verdicts_on_agents(self) -> Iterator[EvaluationFinished]:
        return (e for attempt, e in self.evaluations.items() if not self._is_given(attempt))

    @property
    def best(self) -> Best | None:
        """The best kernel; None before there is a correct one."""
        return self._summed_up(self.tree.best, self.tree.score)

    @property
    def best_otherwise(self) -> Best | None:
        """The kernel that is better than the best one by the other score, if one is."""
        best, score = self.best, self.tree.score
        other: ScoredBy = "device" if score == "eager" else "eager"
        if best is None:
            return None
        found = self._summed_up(self.tree.best_by(other), other)
        same = msgspec.structs.replace(best, score=other)
        return found if found is not None and found.scored > same.scored else None

    def _summed_up(self, node: Node | None, score: ScoredBy) -> Best | None:
        root_ms = self.tree.root.runtime_ms if self.tree.nodes else None
        if node is None or node.runtime_ms is None or root_ms is None:
            return None
        outcome = node.outcome
        assert isinstance(outcome, Correct)
        peak, reference_peak = outcome.peak_bytes, outcome.reference_peak_bytes
        return Best(
            node=node.id,
            runtime_ms=node.runtime_ms,
            baseline_ms=root_ms,
            speedup=root_ms / node.runtime_ms,
            source_sha256=node.source_sha256 or "",
            speedups={
                kind: measured.runtime_ms / node.runtime_ms
                for kind, measured in self.baselines.items()
                if measured.runtime_ms is not None
            },
            given=node.made == "user",
            labels=node.labels,
            score=score,
            eager_speedup=outcome.eager_speedup,
            eager_ms=outcome.eager_ms,
            first_call_ms=outcome.first_call_ms,
            worst_set=outcome.worst_set,
            peak_bytes=peak,
            reference_peak_bytes=reference_peak,
            memory_ratio=memory_ratio(peak, reference_peak),
        )

    @property
    def audit(self) -> list[str] | None:
        """What the task's audit found; None before there was one, and in logs older than it."""
        eager = self.baselines.get("eager")
        audited = eager is not None and (eager.audit or eager.conditions)  # came with each other
        return eager.audit if eager is not None and audited else None

    @property
    def attempts_allowed(self) -> int:
        config: dict[str, Any] = self.started.config if self.started else {}
        return int(config.get("budget", {}).get("attempts", 0)) + self.extra_attempts

    def summary(self, *, run: str, log: str, writer_alive: bool = False) -> Summary:
        """The run as one flat record. A run without a writer and without an end was interrupted."""
        total = self.spend.total
        status = self.status
        if status == "running" and not writer_alive:
            status = "interrupted"
        return Summary(
            run=run,
            log=log,
            status=status,
            reason=self.reason,
            attempts=self.ended,
            attempts_by_agents=self.by_agents,
            abandoned=self.abandoned,
            compiled=self.compiled,
            correct=self.correct,
            best=self.best,
            cost_usd=total.usd_micros / 1_000_000,
            unpriced_calls=total.unpriced_calls,
            uncounted_calls=total.uncounted_calls,
            tokens={"input": total.input_tokens, "output": total.output_tokens},
            device_s=self.spend.device_ms / 1000,
            wall_s=self.wall_us / 1_000_000,
            canned=bool(self.started and self.started.canned),
            quarantined=dict(self.quarantined),
            pool=self.pool.summary(self.wall_us / 1_000_000),
            fork=self._forked(total),
            steered=self.steering.stands(),
            duplicates=sum(e.same_as is not None for e in self.evaluations.values()),
            saved_tokens_estimate=total.saved_tokens,
            cached_verdicts=sum(e.cached for e in self.evaluations.values()),
            baselines={kind: b.runtime_ms for kind, b in self.baselines.items()},
            audit=self.audit,
            awaited=self._awaited(),
            given=None if self.started is None else self.started.given,
        )

    def _awaited(self) -> list[Awaited]:
        mail = self.mail
        doubts = {call: f"{doubt.file.name}: {doubt.reason}" for call, doubt in mail.doubts.items()}
        return [
            Awaited(
                name=deferred.name,
                attempt=deferred.attempt,
                role=deferred.role,
                place=deferred.place if deferred.batch else mail.moved or deferred.place,
                batch=deferred.batch,
                doubt=doubts.get(call),
                rejection=self.tree[deferred.attempt].rejection or None,
            )
            for call, deferred in sorted(mail.awaited.items())
        ]

    def _forked(self, total: RoleSpend) -> Fork | None:
        if self.fork is None:
            return None
        recorded = total.reused - self._shared.reused
        own = [e for node, e in self.evaluations.items() if node not in self._shared_evaluations]
        taken = sum(verdict.reused is not None for verdict in own)
        return msgspec.structs.replace(
            self.fork,
            recorded_replies=recorded,
            live_replies=total.calls - self._shared.calls - recorded,
            recorded_evaluations=taken,
            new_evaluations=sum(verdict.is_new for verdict in own),
        )


_UNBUILT = (CompileFailed, NoCandidate)


def overview_of(events: Iterable[Event]) -> Overview:
    """The overview after these events."""
    overview = Overview()
    for event in events:
        overview.apply(event)
    return overview
