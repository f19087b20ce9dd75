"""What must hold for a verdict to be given: how candidates are isolated, and what they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from engine.cli.exits import Failure

__all__ = ["isolation_options", "refuse_option"]

refuse_option = click.option(
    "--refuse", metavar="LABELS",
    help="Labels that make a correct candidate a failure, such as fallback,torch-only.",
)  # fmt: skip


def isolation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--require-isolation`` and ``--allow-weak-isolation``. The command gets
    ``require_isolation``: the weakest tier that will do, None if neither was given."""

    @click.option("--require-isolation", type=click.Choice(["A", "B"]),
                  help="Refuse machines that isolate candidates less (default: B).")  # fmt: skip
    @click.option("--allow-weak-isolation", is_flag=True,
                  help="Run candidates also where resource limits alone confine them.")  # fmt: skip
    @wraps(command)
    def with_tier(
        *args: Any, require_isolation: str | None, allow_weak_isolation: bool, **options: Any
    ) -> Any:
        if require_isolation and allow_weak_isolation:
            raise Failure("--require-isolation and --allow-weak-isolation exclude each other")
        tier = "C" if allow_weak_isolation else require_isolation
        return command(*args, require_isolation=tier, **options)

    return with_tier
