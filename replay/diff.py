"""Where two runs part, and what came of it.

Decisions are compared in the order of the log, by what they choose: the node, the window,
the role to ask. What only restates settings or facts (a model, a source, a draw, the best so
far, the state's digest) is no parting by itself, and neither are repeated tries, pauses and
interruptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from events.bodies import (
    AgentCalled,
    Body,
    EvaluationRequested,
    NodeSelected,
    RunPaused,
    RunStopped,
)
from events.envelope import Event
from projections.run.overview import Overview
from projections.run.summary import Best
from replay.differing import differing
from replay.settings import differing_settings

__all__ = ["LoggedEvent", "Parting", "Progress", "RunDiff", "Side", "diff_runs"]


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event: its number in the run, its type, its whole body."""

    run_seq: int
    type: str
    body: Body


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run had come."""

    attempts: int
    correct: int
    abandoned: int
    cost_usd: float
    best: Best | None


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One run at the parting. ``decision`` is None where it had none any more; ``facts`` is
    what had happened to it since the last decision that both runs made."""

    decision: LoggedEvent | None
    facts: list[LoggedEvent]
    before: Progress
    after: Progress


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """The first decision that chooses otherwise. ``fields`` of its body that differ, each
    with both values, where both runs decided the same kind of thing."""

    fields: dict[str, list[Any]]
    first: Side
    second: Side


class RunDiff(msgspec.Struct, frozen=True, kw_only=True):
    """``agreed`` decisions choose the same, up to the events ``agreed_upto`` of the two runs.

    ``settings`` are those that differ, each with both values.
    """

    settings: dict[str, list[Any]]
    agreed: int
    agreed_upto: tuple[int, int]
    parting: Parting | None


def diff_runs(first: Iterable[Event], second: Iterable[Event]) -> RunDiff:
    """Compare two runs, each given whole and in order. Reads each once."""
    one, two = _Reading(first), _Reading(second)
    agreed, upto = 0, (0, 0)
    while True:
        left, right = one.next_decision(), two.next_decision()
        if left is None or right is None or _choice(left.body) != _choice(right.body):
            break
        agreed, upto = agreed + 1, (left.run_seq, right.run_seq)
        one.overview.apply(left)
        two.overview.apply(right)
    parting = None
    if left is not None or right is not None:
        parting = Parting(fields=_fields(left, right), first=one.side(left), second=two.side(right))
    return RunDiff(
        settings=differing_settings([one.overview.started, two.overview.started]),
        agreed=agreed,
        agreed_upto=upto,
        parting=parting,
    )


class _Reading:
    """A run that is read decision by decision. ``facts`` is what happened before this one."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.overview = Overview()
        self._events: Iterator[Event] = iter(events)
        self._facts: list[LoggedEvent] = []

    def next_decision(self) -> Event | None:
        """The next one, not folded yet; None at the end."""
        self._facts = []
        for event in self._events:
            if event.kind == "decision" and _choice(event.body) is not None:
                return event
            self.overview.apply(event)
            if event.kind == "in":
                self._facts.append(_logged(event))
        return None

    def side(self, decision: Event | None) -> Side:
        """This run at the parting; reads it to its end."""
        before, facts = _progress(self.overview), self._facts
        if decision is not None:
            self.overview.apply(decision)
        for event in self._events:
            self.overview.apply(event)
        return Side(
            decision=None if decision is None else _logged(decision),
            facts=facts,
            before=before,
            after=_progress(self.overview),
        )


_CHOSEN = {
    NodeSelected: ("attempt", "node", "repair"),
    AgentCalled: ("attempt", "role", "call", "ask", "window"),
    EvaluationRequested: ("attempt",),
    RunStopped: ("status", "reason"),
}


def _choice(body: Body) -> tuple[object, ...] | None:
    """What a decision chooses; None for one that chooses nothing."""
    if isinstance(body, RunPaused) or getattr(body, "try_", 1) > 1:
        return None
    if isinstance(body, RunStopped) and body.status == "interrupted":
        return None
    names = _CHOSEN.get(type(body), body.__struct_fields__)
    return body.TYPE, *(getattr(body, name) for name in names)


def _fields(left: Event | None, right: Event | None) -> dict[str, list[Any]]:
    if left is None or right is None or type(left.body) is not type(right.body):
        return {}
    found = differing([msgspec.to_builtins(event.body) for event in (left, right)])
    return {path: values for path, values in found.items() if path != "state_digest"}


def _logged(event: Event) -> LoggedEvent:
    return LoggedEvent(run_seq=event.run_seq, type=event.type, body=event.body)


def _progress(overview: Overview) -> Progress:
    return Progress(
        attempts=overview.ended,
        correct=overview.correct,
        abandoned=overview.abandoned,
        cost_usd=overview.spend.total.usd_micros / 1_000_000,
        best=overview.best if overview.tree.nodes else None,
    )
