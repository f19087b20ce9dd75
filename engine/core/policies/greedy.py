"""Always the best score: the root, until something is faster than it."""

from __future__ import annotations

from engine.core.policies.epsilon_greedy import exploit
from engine.core.policies.port import Selection
from engine.core.state import State

__all__ = ["greedy"]


def greedy(state: State, attempt: int) -> Selection | None:
    """See the module; implements ``Policy``."""
    return exploit(state, attempt) if state.frontier.eligible else None
