"""Steering in force: hints, bans, a pin, an end that is asked for."""

from __future__ import annotations

import msgspec

from events.bodies import (
    Body,
    HintGiven,
    HintWithdrawn,
    NodeBanned,
    NodePinned,
    NodeUnbanned,
    NodeUnpinned,
    RunForked,
    RunResumed,
    StopRequested,
)

__all__ = ["Steered", "Steering"]


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    """As it stands. ``hints`` are those in force: number → sha256 of the text."""

    hints: dict[int, str]
    banned: list[int]
    pinned: int | None
    stops_after_attempts: bool


class Steering:
    """A fold that owns mutable state. All of it outlasts resumes and forks, but
    for the end."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        """Every hint that was ever given, by its number."""
        self.hints: list[int] = []
        """Those in force, ascending."""
        self.banned: set[int] = set()
        self.pinned: int | None = None
        self.stop_after: str | None = None
        """The source of the request to begin no further attempt."""

    def apply(self, body: Body) -> bool:
        """Fold one event; whether it changed anything."""
        match body:
            case HintGiven():
                self.texts[body.hint] = body.text_sha256
                self.hints = sorted({*self.hints, body.hint})
            case HintWithdrawn():
                self.hints = [hint for hint in self.hints if hint != body.hint]
            case NodeBanned():
                self.banned.add(body.node)
            case NodeUnbanned():
                self.banned.discard(body.node)
            case NodePinned():
                self.pinned = body.node
            case NodeUnpinned():
                self.pinned = None
            case StopRequested(after_attempts=True):
                self.stop_after = body.source
            case RunResumed() | RunForked() if self.stop_after is not None:
                self.stop_after = None
            case _:
                return False
        return True

    def stands(self) -> Steered:
        return Steered(
            hints={hint: self.texts[hint] for hint in self.hints},
            banned=sorted(self.banned),
            pinned=self.pinned,
            stops_after_attempts=self.stop_after is not None,
        )
