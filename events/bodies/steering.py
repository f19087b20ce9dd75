"""Steering: what the user changes of a run while it goes on."""

from __future__ import annotations

from events.bodies.body import Body, event

__all__ = [
    "HintGiven", "HintWithdrawn", "NodeBanned", "NodePinned", "NodeUnbanned", "NodeUnpinned",
]  # fmt: skip


@event("HintGiven", "in")
class HintGiven(Body, frozen=True, kw_only=True):
    """The planner is shown this text, the event's blob, until it is withdrawn."""

    hint: int
    """Counted from 1."""
    text_sha256: str


@event("HintWithdrawn", "in")
class HintWithdrawn(Body, frozen=True, kw_only=True):
    """No later prompt shows the hint."""

    hint: int


@event("NodeBanned", "in")
class NodeBanned(Body, frozen=True, kw_only=True):
    """No attempt starts from the node; those that are in flight go on."""

    node: int


@event("NodeUnbanned", "in")
class NodeUnbanned(Body, frozen=True, kw_only=True):
    """The policy may select the node again."""

    node: int


@event("NodePinned", "in")
class NodePinned(Body, frozen=True, kw_only=True):
    """Each attempt starts from the node, as long as it is eligible. One at a time: an earlier
    pin ends."""

    node: int


@event("NodeUnpinned", "in")
class NodeUnpinned(Body, frozen=True, kw_only=True):
    """The policy selects again."""

    node: int
