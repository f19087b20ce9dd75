"""A uniform draw from all evaluated nodes, the root among them."""

from __future__ import annotations

from engine.core.draws import draw
from engine.core.policies.port import Selection
from engine.core.state import State
from events.bodies import Draws

__all__ = ["random"]


def random(state: State, attempt: int) -> Selection | None:
    """See the module; implements ``Policy``."""
    nodes = state.frontier.eligible
    if not nodes:
        return None
    leaf = draw(state.draw_key, "leaf", attempt, len(nodes))
    return Selection(
        node=nodes.nth(leaf), rule="explore", draws=Draws(leaf=leaf), eligible=len(nodes)
    )
