"""The settings of runs by key path, and where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engine.config import config_from_log
from events.bodies import RunStarted
from replay.differing import differing

__all__ = ["COMPARABLE", "differing_settings"]

COMPARABLE = ("task", "task_sha256", "device", "sandbox.protocol")
"""What runs have to have in common, so that their runtimes may be compared."""


def _settings(started: RunStarted | None) -> dict[str, Any]:
    """The whole configuration, and what it is of: the task, the device, the rules."""
    if started is None:
        return {}
    # Over today's defaults: a key that is younger than the log is no difference.
    config = config_from_log(started.config)
    return {
        "task": started.task_name,
        "task_sha256": started.task_sha256,
        # Two of a kind are comparable, under whatever number.
        "device": started.device.get("name", config.sandbox.device),
        "format": started.format,
        **msgspec.to_builtins(config),
    }


def differing_settings(runs: Sequence[RunStarted | None]) -> dict[str, list[Any]]:
    """Each key path that is not the same in all runs → its values, in the order of the runs."""
    return differing([_settings(run) for run in runs])
