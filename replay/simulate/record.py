"""What a log can answer: from which node which attempts were made, and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import msgspec

from engine.config import Config, config_from_log
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    BaselineMeasured,
    Body,
    EvaluationFinished,
    NodeSelected,
    ReplyParsed,
    ReplyRejected,
    RunForked,
    RunResumed,
    RunStarted,
    Usage,
)
from events.outcomes import BaselineKind, Correct, ScoredBy
from replay.settings import COMPARABLE, differing_settings

__all__ = ["FOLDS", "Child", "NotComparable", "Record", "check_comparable", "record_of"]

FOLDS: tuple[type[Body], ...] = (
    RunStarted, RunResumed, RunForked, BaselineMeasured, NodeSelected, AgentCalled, AgentReplied,
    AgentFailed, ReplyParsed, ReplyRejected, EvaluationFinished, AttemptAbandoned,
)  # fmt: skip
"""The events that ``record_of`` needs."""


class NotComparable(Exception):
    """These logs can't be simulated, or not together; the message says why."""


class Child(msgspec.Struct, kw_only=True):
    """A recorded attempt that has ended: all that the outside did in it.

    ``given``: it is the user's kernel. ``said`` are its calls and their answers, in
    order; of tries that failed, those that took something. ``verdict`` is None for an abandoned
    one.
    """

    node: int
    parent: int
    repair: bool
    given: bool = False
    said: list[AgentCalled | AgentReplied | AgentFailed | ReplyParsed | ReplyRejected] = []
    verdict: EvaluationFinished | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as outcomes by the node that they were made from, in recorded order."""

    name: str
    lineage: tuple[str, ...]
    """The uid of the run, and those of the runs that it is a fork of."""
    started: RunStarted
    """A fork's as if it had been configured so from the beginning."""
    configs: list[Config]
    """Under which its attempts were made: a fork's own comes last, after its ancestors'."""
    baselines: dict[BaselineKind, BaselineMeasured]
    attempts_allowed: int
    attempts: int
    """Ended ones; what was in flight when the log ends is no outcome."""
    children: dict[int, list[Child]]
    best: list[float | None]
    """The best speedup over the root after each ended attempt, in the order of their ends."""

    @property
    def config(self) -> Config:
        return self.configs[-1]


def record_of(bodies: Iterable[Body], name: str, lineage: Sequence[str]) -> Record:
    """A record of a run's events, of which those in ``FOLDS`` are enough.

    Raises ``NotComparable`` for a run whose root was never measured.
    """
    recording = _Recording()
    for body in bodies:
        recording.apply(body)
    if recording.started is None or "eager" not in recording.baselines:
        raise NotComparable(f"{name}: its reference was never measured, so nothing was searched")
    children: dict[int, list[Child]] = {}
    for child in sorted(recording.ended, key=lambda child: child.node):
        children.setdefault(child.parent, []).append(child)
    return Record(
        name=name,
        lineage=tuple(lineage),
        started=recording.started,
        configs=recording.configs,
        baselines=recording.baselines,
        attempts_allowed=recording.configs[-1].budget.attempts + recording.extra_attempts,
        attempts=len(recording.ended),
        children=children,
        best=_best(
            recording.ended,
            recording.baselines["eager"].runtime_ms or 0.0,
            recording.configs[-1].search.score,
        ),
    )


class _Recording:
    """A fold over one run's bodies that owns mutable state."""

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        self.configs: list[Config] = []
        self.baselines: dict[BaselineKind, BaselineMeasured] = {}
        self.ended: list[Child] = []
        self.extra_attempts = 0
        self._going: dict[int, Child] = {}
        self._asked: dict[int, AgentCalled] = {}
        """The newest try, by attempt."""

    def apply(self, body: Body) -> None:
        match body:
            case RunStarted():
                self._configure(body)
            case RunResumed():
                self.extra_attempts += body.extra_attempts
            case RunForked():
                assert self.started is not None
                # What resumes had added is part of the budget that the fork was given.
                self.extra_attempts = 0
                self._configure(body.applied(self.started))
            case BaselineMeasured():
                self.baselines[body.baseline] = body
            case NodeSelected():
                self._going[body.attempt] = Child(
                    node=body.attempt, parent=body.node, repair=body.repair,
                    given=body.rule == "given",
                )  # fmt: skip
            case AgentCalled():
                self._asked[body.attempt] = body
            case AgentReplied() | AgentFailed(usage=Usage()):
                self._going[body.attempt].said += (self._asked[body.attempt], body)
            case ReplyParsed() | ReplyRejected():
                self._going[body.attempt].said.append(body)
            case EvaluationFinished():
                child = self._going.pop(body.attempt)
                child.verdict = body
                self.ended.append(child)
            case AttemptAbandoned():
                self.ended.append(self._going.pop(body.attempt))

    def _configure(self, started: RunStarted) -> None:
        self.started = started
        self.configs.append(config_from_log(started.config))


def _best(ended: Sequence[Child], root_ms: float, score: ScoredBy) -> list[float | None]:
    curve: list[float | None] = []
    best: float | None = None
    for child in ended:
        if child.verdict is not None and isinstance(child.verdict.outcome, Correct):
            best = max(best or 0.0, root_ms / child.verdict.outcome.runtime_by(score))
        curve.append(best)
    return curve


def check_comparable(records: Sequence[Record]) -> None:
    """Several logs answer for one search only if their scores mean the same.

    Raises ``NotComparable``, which names what differs.
    """
    for first, other in combinations(records, 2):
        found = differing_settings([first.started, other.started])
        what = next((key for key in (*COMPARABLE, "search.method") if key in found), None)
        if what is not None:
            one, two = found[what]
            raise NotComparable(
                f"{other.name} and {first.name} differ in {what} ({two}, {one}):"
                " simulate them one by one"
            )
        if set(first.lineage) & set(other.lineage):
            raise NotComparable(
                f"{other.name} and {first.name} share attempts, which would count twice:"
                " name one of them"
            )
