"""What a user tells a run, checked against its state, as the events that say it."""

from __future__ import annotations

import msgspec

from engine.core.state import State
from engine.loop.texts import Texts
from events.bodies import (
    Body,
    HintGiven,
    HintWithdrawn,
    NodeBanned,
    NodePinned,
    NodeUnbanned,
    NodeUnpinned,
    StopRequested,
)
from events.envelope import Blob

__all__ = ["Refused", "Wish", "facts"]

_LONGEST_HINT = 4_000


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run is told; ``run`` is its uid."""

    run: str
    hints: list[str] = []
    withdraw: list[int] = []
    ban: list[int] = []
    unban: list[int] = []
    pin: int | None = None
    unpin: bool = False
    stop_after_attempts: bool = False


class Refused(Exception):
    """The run can't be told this; the message says why."""


def facts(wish: Wish, state: State, texts: Texts) -> list[tuple[Body, list[Blob]]]:
    """The events that say it, with their blobs. Raises ``Refused``: then nothing is logged."""
    steering = state.steering
    made: list[tuple[Body, list[Blob]]] = []
    for text in wish.hints:
        blob = texts.put("hint", _checked_hint(text, state))
        number = len(steering.texts) + len(made) + 1
        made.append((HintGiven(hint=number, text_sha256=blob.sha256), [blob]))
    bodies: list[Body] = []
    for hint in wish.withdraw:
        if hint not in steering.hints:
            there = ", ".join(map(str, steering.hints)) or "none"
            raise Refused(f"no hint {hint} is in force (there are: {there})")
        bodies.append(HintWithdrawn(hint=hint))
    for node in (*wish.ban, *([] if wish.pin is None else [wish.pin])):
        if node not in state.tree.nodes:
            raise Refused(f"no node {node}: the run has 0 to {max(state.tree.nodes, default=0)}")
    bodies += [NodeBanned(node=node) for node in wish.ban]
    for node in wish.unban:
        if node not in steering.banned:
            raise Refused(f"node {node} is not banned")
        bodies.append(NodeUnbanned(node=node))
    if wish.unpin:
        if steering.pinned is None:
            raise Refused("no node is pinned")
        bodies.append(NodeUnpinned(node=steering.pinned))
    if wish.pin is not None:
        bodies.append(NodePinned(node=wish.pin))
    if wish.stop_after_attempts:
        bodies.append(StopRequested(source="engine steer", after_attempts=True))
    return [*made, *((body, []) for body in bodies)]


def _checked_hint(text: str, state: State) -> str:
    assert state.started is not None
    if not text.strip():
        raise Refused("the hint is empty")
    if len(text) > _LONGEST_HINT:
        raise Refused(f"the hint has {len(text)} characters: at most {_LONGEST_HINT} are shown")
    if "hint.md" not in state.started.templates:
        raise Refused("the run began with prompts that have no place for hints")
    return text
