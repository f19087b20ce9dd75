"""Stages of an evaluation, reported to the task that requested it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Call ``listener`` with each stage of this task's evaluations, such as ``compiling``."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def say(stage: str) -> None:
    """Report a stage to the listener, if there is one."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(stage)
