"""What a command is waiting for, on a terminal: a panel, or plain lines where it is dumb.

Elsewhere nothing is shown. Results go to stdout between, while the panel is ``hidden``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from engine.cli.views.draw import printable

__all__ = ["Waiting", "waiting_for"]

_MOST_LINES = 8


class Waiting:
    """Shows nothing. ``names`` are of what is waited for, in order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [printable(name) for name in names]
        self._stages: dict[int, str] = {}
        self._done = 0

    def stage(self, number: int, stage: str) -> None:
        """The ``number``-th, from 0, is ``stage`` now."""
        self._stages[number] = stage

    def done(self, number: int) -> None:
        """The ``number``-th is over."""
        self._stages.pop(number, None)
        self._done += 1

    @contextmanager
    def shown(self) -> Iterator[None]:
        yield

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """For what is printed meanwhile."""
        yield


class _Lines(Waiting):
    """A line for each new stage."""

    def stage(self, number: int, stage: str) -> None:
        if self._stages.get(number) != stage:
            place = f"[{number + 1}/{len(self._names)}]"
            click.echo(f"{place} {self._names[number]}: {stage}", err=True)
        super().stage(number, stage)


class _Panel(Waiting):
    """What is under way, redrawn a few times a second."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._began = time.monotonic()
        self._live: Any = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        # Imported late: rich costs more than the rest of the command line together.
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(stderr=True)
        self._live = Live(
            get_renderable=lambda: Text("\n".join(self._text()), no_wrap=True, overflow="ellipsis"),
            console=console, refresh_per_second=4, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        with self._live:
            yield

    @contextmanager
    def hidden(self) -> Iterator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def _text(self) -> list[str]:
        """Drawn by a thread of rich's, so by copies."""
        stages = sorted(dict(self._stages).items())
        lines = [f"{self._names[number]}: {stage}" for number, stage in stages[:_MOST_LINES]]
        if len(stages) > _MOST_LINES:
            lines.append(f"… {len(stages) - _MOST_LINES} more")
        spent = time.monotonic() - self._began
        return [*lines, f"[{self._done}/{len(self._names)}] done, {spent:.0f} s"]


def waiting_for(names: Sequence[str]) -> Waiting:
    """What goes with stderr; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        return Waiting(names)
    return (_Lines if os.environ.get("TERM", "dumb") == "dumb" else _Panel)(names)
