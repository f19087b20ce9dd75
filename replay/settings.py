"""What a run was told: its settings by key path, and where those of runs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from engine.config import config_from_log
from events.bodies import RunStarted

__all__ = ["COMPARABLE", "differing", "settings"]

COMPARABLE = ("task", "task_sha256", "sandbox.device", "device", "sandbox.protocol")
"""What runs have to have in common, so that their runtimes may be compared."""


def settings(started: RunStarted | None) -> dict[str, Any]:
    """Key path → value: the whole configuration, the task and the device's name."""
    if started is None:
        return {}
    return {
        "task": started.task_name,
        "task_sha256": started.task_sha256,
        "device": started.device.get("name"),
        # Over today's defaults: a key that is younger than the log is no difference.
        **dict(_leaves(msgspec.to_builtins(config_from_log(started.config)))),
    }


def differing(runs: Sequence[RunStarted | None]) -> dict[str, list[Any]]:
    """Each key that is not the same in all runs → its values, in the order of the runs."""
    told = [settings(run) for run in runs]
    keys = dict.fromkeys(key for one in told for key in one)
    values = {key: [one.get(key) for one in told] for key in keys}
    return {key: each for key, each in values.items() if any(one != each[0] for one in each)}


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
