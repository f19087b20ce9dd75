"""The team that a configuration names, and the models that its roles ask."""

from __future__ import annotations

from agents.team import plan_code_debug_team, single_team
from engine.config import Config
from engine.core.state import Team
from events.observations import MEASURED, SectionName

__all__ = ["models_of", "observed_for", "roles_of", "team_of"]


def team_of(config: Config) -> Team:
    """The team of ``search.team``, as the configuration wants it."""
    search = config.search
    if search.team == "single":
        return single_team(leaders=search.leaders, windows=search.windows)
    return plan_code_debug_team(
        leaders=search.leaders, windows=search.windows, repairs=search.repairs
    )


def roles_of(config: Config) -> tuple[str, ...]:
    """The roles that this configuration can ask, in the order of their work."""
    team = team_of(config)
    repair = team.roles(repair=True) if team.repairs else ()
    return (*team.roles(repair=False), *repair)


def observed_for(config: Config) -> tuple[SectionName, ...]:
    """What is to be measured besides verdicts, because one of those roles sees it."""
    wanted = {name for role in roles_of(config) for name in config.role(role).observations}
    return tuple(name for name in MEASURED if name in wanted)


def models_of(config: Config) -> list[str]:
    """The models that may be asked for those roles, each once."""
    models = (model for role in roles_of(config) for model in config.models(role))
    return list(dict.fromkeys(models))
