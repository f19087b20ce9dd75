"""Methods by name: which team a configuration asks for."""

from __future__ import annotations

from agents.team import stark_team
from engine.config import Config
from engine.core.state import Team

__all__ = ["team_of"]


def team_of(config: Config) -> Team:
    """The team of ``search.method``; both present methods use the plan/code/debug team."""
    return stark_team(leaders=config.search.leaders, windows=config.search.windows)
