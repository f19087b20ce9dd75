"""Who is asked in a run, read off the configuration that its log holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["improvers", "models_of", "roles_of"]


def roles_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The roles of the run's team. Logs from before there were others have the first."""
    search = config.get("search", {})
    if search.get("team", "plan_code_debug") == "single":
        return ("single",)
    return ("plan", "code", "debug") if search.get("repairs", True) else ("plan", "code")


def models_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Who answers for each of those roles, as ``client:model``."""
    roles = config.get("roles", {})
    return {
        role: roles[role].get("model") or config.get("model", "")
        for role in roles_of(config)
        if role in roles
    }


def improvers(config: Mapping[str, Any]) -> str:
    """Who makes a candidate that is no repair: ``plan+code`` or ``single``."""
    return "+".join(role for role in roles_of(config) if role != "debug")
