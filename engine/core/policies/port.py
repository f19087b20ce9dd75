"""What a policy is: a pure function from the state to a selection."""

from __future__ import annotations

from typing import Protocol

import msgspec

from engine.core.state import State
from events.bodies import Draws, Rule

__all__ = ["Policy", "Selection"]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The picked node, with all that a reader of the log needs to check the pick."""

    node: int
    rule: Rule
    draws: Draws
    eligible: int


class Policy(Protocol):
    def __call__(self, state: State, attempt: int) -> Selection | None:
        """The node for ``attempt``; None when no node may be expanded now."""
        ...
