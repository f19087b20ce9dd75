"""The roles of a run and their models, out of the logged configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["improvers", "models_of", "models_words", "roles_of"]


def roles_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The roles of the run's team. Logs from before there were others have the first."""
    search = config.get("search", {})
    if search.get("team", "plan_code_debug") == "single":
        return ("single",)
    return ("plan", "code", "debug") if search.get("repairs", True) else ("plan", "code")


def models_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The models of each of those roles, as ``client:model``, with an "or" between several."""
    roles = config.get("roles", {})
    return {
        role: " or ".join(roles[role].get("models", ()))
        or roles[role].get("model")
        or config.get("model", "")
        for role in roles_of(config)
        if role in roles
    }


def models_words(models: Mapping[str, str]) -> str:
    """The model, or what each role asks where they differ."""
    if len(set(models.values())) == 1:
        return next(iter(models.values()))
    return ", ".join(f"{role} {model}" for role, model in models.items())


def improvers(config: Mapping[str, Any]) -> str:
    """The makers of a candidate that is no repair: ``plan+code`` or ``single``."""
    return "+".join(role for role in roles_of(config) if role != "debug")
