"""Deadlines of killed jails: one that shows no progress by then is stuck in the kernel.

The kernel may take down as few as five processes a second, if each has many mappings.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

_POLL_S = 1.0


class _Ending(msgspec.Struct):
    most: float
    due: float
    seen: tuple[int, int] | None = None


class Endings:
    """By a jail's number. ``spent`` gives its processes and their processor time. An end is due
    ``due_s`` after the kill, or ``most_s`` while it makes progress."""

    def __init__(
        self,
        spent: Callable[[int], tuple[int, int]],
        *,
        due_s: float,
        most_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spent = spent
        self._due_s = due_s
        self._most_s = most_s
        self._clock = clock
        self._endings: dict[int, _Ending] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._endings

    def killed(self, number: int) -> None:
        now = self._clock()
        self._endings[number] = _Ending(most=now + self._most_s, due=now + self._due_s)

    def over(self, number: int) -> bool:
        """Forget it. Returns whether it is overdue."""
        ending = self._endings.pop(number, None)
        return ending is not None and ending.due <= self._clock()

    def late(self) -> set[int]:
        """Jails that are due and make no progress."""
        now = self._clock()
        return {
            number
            for number, ending in self._endings.items()
            if ending.due <= now and not self._goes_on(number, ending, now)
        }

    def _goes_on(self, number: int, ending: _Ending, now: float) -> bool:
        """The first time there is nothing to compare with, which counts as progress."""
        before, ending.seen = ending.seen, self._spent(number)
        if now >= ending.most or ending.seen == before:
            return False
        ending.due = now + _POLL_S
        return True

    def next_s(self) -> float | None:
        """Seconds until the next is due; None without any."""
        if not self._endings:
            return None
        return max(0.0, min(ending.due for ending in self._endings.values()) - self._clock())
