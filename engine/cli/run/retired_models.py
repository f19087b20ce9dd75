"""Models that their provider retires: refused after their last day, warned of before it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime

from agents.models import retirement_date
from engine.cli.exits import Failure
from engine.cli.settings.layers import PRESETS
from engine.config import Config
from engine.loop.methods import roles_of

__all__ = ["fork_instead", "refuse_retired", "retiring_lines", "set_instead", "today"]

NOTICE_DAYS = 60  # Anthropic announces a retirement at least so many days before it


def today() -> date:
    """The date, in UTC."""
    return datetime.now(UTC).date()


def refuse_retired(specs: Iterable[str], instead: str) -> None:
    """Raise ``Failure`` for the first model past its last day. ``instead`` says what to do."""
    for spec in specs:
        day = retirement_date(spec)
        if day is None or today() <= day:
            continue
        paper = ", the paper's own model," if spec == PRESETS["paper"]["model"] else ""
        raise Failure(
            f"{spec}{paper} was retired on {day}, and is not served any more:"
            f" {instead}, such as {Config().model}"
        )


def retiring_lines(specs: Iterable[str], at: date) -> Iterator[str]:
    """A warning for each model that is retired soon after the day ``at``."""
    for spec in specs:
        day = retirement_date(spec)
        if day is not None and 0 <= (day - at).days <= NOTICE_DAYS:
            yield (
                f"Warning: {spec} is retired on {day}; a run that is not finished by then can go on"
                " with another model only as a fork."
            )


def set_instead(config: Config) -> str:
    """How a fork names other models."""
    return f"name a served model with {_assignments(config)}"


def fork_instead(config: Config, name: str, newest: int) -> str:
    """What to do where a run can't be resumed with its models: ``resume`` keeps them.
    ``newest`` is the run's last event, ``name`` the run's."""
    return (
        "resume keeps a run's models; go on with another in a fork: engine fork"
        f" {shlex.quote(name)} --at {newest} {_assignments(config)}, with a served MODEL"
    )


def _assignments(config: Config) -> str:
    """The options that name another model in place of each retired one."""
    keys = dict.fromkeys(
        _key(config, role)
        for role in roles_of(config)
        for spec in config.models(role)
        if (day := retirement_date(spec)) is not None and today() > day
    )
    return " ".join(f"--set {key}=MODEL" for key in keys or ["model"])


def _key(config: Config, role: str) -> str:
    """The key that names the role's models."""
    if role == "plan" and config.roles.plan.models:
        return "roles.plan.models"
    return f"roles.{role}.model" if getattr(config.roles, role).model else "model"
