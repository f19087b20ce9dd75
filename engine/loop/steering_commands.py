"""Steering commands of the user: checked against a run's state, and turned into events."""

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

__all__ = ["Refused", "SteeringCommand", "steering_events"]

_LONGEST_HINT = 4_000


class SteeringCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user wants of a run; ``run`` is its uid."""

    run: str
    hints: list[str] = []
    withdraw: list[int] = []
    ban: list[int] = []
    unban: list[int] = []
    pin: int | None = None
    unpin: bool = False
    stop_after_attempts: bool = False


class Refused(Exception):
    """The run can't do this; the message says why."""


def steering_events(
    command: SteeringCommand, state: State, texts: Texts
) -> list[tuple[Body, list[Blob]]]:
    """The command's events, with their blobs. Raises ``Refused``: then nothing is logged."""
    steering = state.steering
    made: list[tuple[Body, list[Blob]]] = []
    for text in command.hints:
        blob = texts.put("hint", _checked_hint(text))
        number = len(steering.texts) + len(made) + 1
        made.append((HintGiven(hint=number, text_sha256=blob.sha256), [blob]))
    bodies: list[Body] = []
    for hint in command.withdraw:
        if hint not in steering.hints:
            there = ", ".join(map(str, steering.hints)) or "none"
            raise Refused(f"no hint {hint} is in force (there are: {there})")
        bodies.append(HintWithdrawn(hint=hint))
    for node in (*command.ban, *([] if command.pin is None else [command.pin])):
        if node not in state.tree.nodes:
            raise Refused(f"no node {node}: the run has 0 to {max(state.tree.nodes, default=0)}")
    bodies += [NodeBanned(node=node) for node in command.ban]
    for node in command.unban:
        if node not in steering.banned:
            raise Refused(f"node {node} is not banned")
        bodies.append(NodeUnbanned(node=node))
    if command.unpin:
        if steering.pinned is None:
            raise Refused("no node is pinned")
        bodies.append(NodeUnpinned(node=steering.pinned))
    if command.pin is not None:
        bodies.append(NodePinned(node=command.pin))
    if command.stop_after_attempts:
        bodies.append(StopRequested(source="engine steer", after_attempts=True))
    return [*made, *((body, []) for body in bodies)]


def _checked_hint(text: str) -> str:
    if not text.strip():
        raise Refused("the hint is empty")
    if len(text) > _LONGEST_HINT:
        raise Refused(f"the hint has {len(text)} characters: at most {_LONGEST_HINT} are shown")
    return text
