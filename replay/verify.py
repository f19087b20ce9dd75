"""Does the log's search follow from what happened to it?

Feeds the ``in`` events to the same core that searched, recomputes every decision, and
compares its whole body. Needs no network, no device, no torch and no model client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import State, TeamOf
from events.bodies import Body, NodeSelected, RunForked
from events.codec import encode_body
from events.envelope import Event
from events.errors import BodyInvalid
from replay.differing import differing

__all__ = ["Agreed", "Difference", "FieldDifference", "Replay", "replay"]

Watch = Callable[[State, Event], None]

_IMPOSSIBLE = (LookupError, AssertionError, AttributeError, TypeError, ValueError, ArithmeticError)
"""What the core may raise over a fact that never happened: it trusts its log."""


class FieldDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A field that differs. ``field`` is its path, such as ``draws.coin``; a side without it
    has None."""

    field: str
    logged: Any
    computed: Any


class Agreed(msgspec.Struct, frozen=True, kw_only=True):
    """The last event that was as computed (0: none), and the last state digest, which stands
    in the selection ``digest_seq``."""

    run_seq: int = 0
    type: str | None = None
    digest: str | None = None
    digest_seq: int | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first place where the log and the core part.

    ``what``: ``changed``, another decision; ``missing``, the core decides something and
    the log goes on without it; ``extra``, the log has a decision and the core waits;
    ``impossible``, the core can't take this event; ``unreadable``, its body is none.
    ``logged`` and ``computed`` are bodies as JSON. A log records a state digest in each
    selection; the computed one is of the state before this event.
    """

    run_seq: int
    seq: int | None
    what: Literal["changed", "missing", "extra", "impossible", "unreadable"]
    logged_type: str | None
    computed_type: str | None
    logged: msgspec.Raw | None
    computed: msgspec.Raw | None
    fields: list[FieldDifference]
    logged_digest: str | None
    computed_digest: str
    agreed: Agreed
    error: str | None = None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay found; ``difference`` is None when everything agrees.

    ``state`` is the one after the last event that agreed. ``due`` is the decision that the
    log ends before: its writer was killed there, or is about to append it.
    """

    events: int
    decisions: int
    digest: str
    difference: Difference | None
    due: str | None
    state: State


def replay(events: Iterable[Event], team_of: TeamOf, *, watch: Watch | None = None) -> Replay:
    """Replay one run's events, in order. Reads no clock and no file.

    ``watch`` sees each event (``meta`` ones too) that agreed, with the state before it.
    """
    course = _Course(team_of, watch)
    try:
        for event in events:
            course.events += 1
            course.difference = course.follow(event)
            if course.difference is not None:
                break
    except BodyInvalid as error:
        course.events += 1
        course.difference = course.unreadable(error)
    due = course.due() if course.difference is None else None
    return Replay(
        events=course.events,
        decisions=course.decisions,
        digest=course.state.digest,
        difference=course.difference,
        due=due,
        state=course.state,
    )


class _Course:
    """A replay on its way."""

    def __init__(self, team_of: TeamOf, watch: Watch | None) -> None:
        self.state = State(team_of)
        self.events = self.decisions = 0
        self.agreed = Agreed()
        self.difference: Difference | None = None
        self._newest: Event | None = None
        self._watch = watch

    def follow(self, event: Event) -> Difference | None:
        """Compare the event, then fold it. A ``meta`` one steers nothing."""
        computed: Body | None = None
        self._newest = event
        try:
            if event.kind != "meta":
                computed = self._decide_before(event)
                if not _same(event, computed):
                    return self._differs(event, computed)
            if self._watch is not None:
                self._watch(self.state, event)
            if event.kind != "meta":
                self.state = evolve(self.state, event.body)
        except _IMPOSSIBLE as error:
            # A note about an attempt that is not there: is its selection what is missing?
            due = decide(self.state) if event.kind == "meta" else None
            return self._differs(event, computed or due, None if due else _words(error))
        self.decisions += event.kind == "decision"
        self._agree(event)
        return None

    def _decide_before(self, event: Event) -> Body | None:
        # What was due where a run forked is decided anew, under the fork's configuration.
        return None if isinstance(event.body, RunForked) else decide(self.state)

    def due(self) -> str | None:
        """The type of the decision that the whole log leads to."""
        try:
            decision = decide(self.state)
        except _IMPOSSIBLE as error:
            assert self._newest is not None  # without an event nothing is decided
            self.difference = self._differs(self._newest, None, _words(error))
            return None
        return None if decision is None else decision.TYPE

    def _agree(self, event: Event) -> None:
        digest, digest_seq = self.agreed.digest, self.agreed.digest_seq
        if isinstance(event.body, NodeSelected):
            digest, digest_seq = event.body.state_digest, event.run_seq
        self.agreed = Agreed(
            run_seq=event.run_seq, type=event.type, digest=digest, digest_seq=digest_seq
        )

    def _differs(self, event: Event, computed: Body | None, error: str | None = None) -> Difference:
        logged = event.body
        decided = event.kind == "decision"
        if error is not None:
            what = "impossible"
        elif computed is None:
            what = "extra"
        else:
            what = "changed" if decided else "missing"
        comparable = what == "changed" and type(logged) is type(computed)
        return Difference(
            run_seq=event.run_seq,
            seq=event.seq,
            what=what,  # type: ignore[arg-type]
            logged_type=event.type,
            computed_type=None if computed is None else computed.TYPE,
            logged=_raw(logged),
            computed=_raw(computed),
            fields=list(_fields(logged, computed)) if comparable and computed else [],
            logged_digest=logged.state_digest if isinstance(logged, NodeSelected) else None,
            computed_digest=self.state.digest,
            agreed=self.agreed,
            error=error,
        )

    def unreadable(self, error: BodyInvalid) -> Difference:
        return Difference(
            run_seq=self.agreed.run_seq + 1, seq=None, what="unreadable",
            logged_type=None, computed_type=None, logged=None, computed=None, fields=[],
            logged_digest=None, computed_digest=self.state.digest, agreed=self.agreed,
            error=str(error),
        )  # fmt: skip


def _same(event: Event, computed: Body | None) -> bool:
    if event.kind != "decision" or computed is None:
        # Decisions that a kill cut off are completed before anything else happens, so an
        # ``in`` event while one is due is a difference too.
        return event.kind != "decision" and computed is None
    logged = event.body
    return type(logged) is type(computed) and encode_body(logged) == encode_body(computed)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _raw(body: Body | None) -> msgspec.Raw | None:
    return None if body is None else msgspec.Raw(encode_body(body))


def _fields(logged: Body, computed: Body) -> Iterator[FieldDifference]:
    """The fields that differ, nested ones by their path, in the body's own order."""
    found = differing([msgspec.to_builtins(body) for body in (logged, computed)])
    for path, (one, other) in found.items():
        yield FieldDifference(field=path, logged=one, computed=other)
