"""Does the log's search follow from what happened to it?

Feeds the ``in`` events to the same core that searched, recomputes every decision, and
compares its whole body. Needs no network, no device, no torch and no model client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import State, TeamOf
from events.bodies import Body, NodeSelected, RunForked
from events.codec import encode_body
from events.envelope import Event

__all__ = ["Difference", "Replay", "replay"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first place where the log and the core part.

    ``logged`` and ``computed`` are bodies as JSON text; None where one side has no
    decision there. ``fields`` names the keys that differ when the types agree.
    """

    run_seq: int
    logged_type: str | None
    computed_type: str | None
    logged: str | None
    computed: str | None
    fields: list[str]
    last_agreeing_seq: int
    last_agreeing_digest: str | None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay found; ``difference`` is None when everything agrees."""

    events: int
    decisions: int
    digest: str
    difference: Difference | None
    state: State


def replay(
    events: Iterable[Event],
    team_of: TeamOf,
    *,
    watch: Callable[[State, Event], None] | None = None,
) -> Replay:
    """Replay one run's events, in order. Reads no clock and no file.

    ``watch`` sees each event (``meta`` ones too) that agreed, with the state before it.
    """
    state = State(team_of)
    count = decisions = 0
    agreed_seq, agreed_digest = 0, None
    difference: Difference | None = None
    for event in events:
        count += 1
        if event.kind == "meta":
            if watch is not None:
                watch(state, event)
            continue
        # What was due where a run forked is decided anew, under the fork's configuration.
        computed = None if isinstance(event.body, RunForked) else decide(state)
        logged = event.body if event.kind == "decision" else None
        if not _same(logged, computed):
            difference = _difference(event, logged, computed, agreed_seq, agreed_digest)
            break
        if isinstance(event.body, NodeSelected):
            agreed_digest = event.body.state_digest
        if watch is not None:
            watch(state, event)
        decisions += logged is not None
        agreed_seq = event.run_seq
        state = evolve(state, event.body)
    return Replay(
        events=count,
        decisions=decisions,
        digest=state.digest,
        difference=difference,
        state=state,
    )


def _same(logged: Body | None, computed: Body | None) -> bool:
    if logged is None or computed is None:
        # Decisions that a kill cut off are completed before anything else happens, so an
        # ``in`` event while one is due is a difference too.
        return logged is computed
    return type(logged) is type(computed) and encode_body(logged) == encode_body(computed)


def _difference(
    event: Event,
    logged: Body | None,
    computed: Body | None,
    agreed_seq: int,
    agreed_digest: str | None,
) -> Difference:
    fields: list[str] = []
    if logged is not None and type(logged) is type(computed):
        names = [field.name for field in msgspec.structs.fields(logged)]
        fields = [name for name in names if getattr(logged, name) != getattr(computed, name)]
    return Difference(
        run_seq=event.run_seq,
        logged_type=logged.TYPE if logged else f"{event.type} (in)",
        computed_type=computed.TYPE if computed else None,
        logged=encode_body(logged).decode() if logged else None,
        computed=encode_body(computed).decode() if computed else None,
        fields=fields,
        last_agreeing_seq=agreed_seq,
        last_agreeing_digest=agreed_digest,
    )
