"""Who was told to end, and when it should have.

Who has not by then, and of whom nothing changes from one look to the next, is stuck in the kernel.
Whose processes the kernel is still taking down is not: five a second, on one core, if each has
65,530 mappings, and nobody else is to pay for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

_LOOK_S = 1.0


class _Ending(msgspec.Struct):
    most: float
    due: float
    seen: tuple[int, int] | None = None


class Endings:
    """By number. ``spent``: how many processes of it there are, and the processor time that these
    have had together. Due ``due_s`` after they were told, or ``most_s`` where they go on ending."""

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

    def told(self, number: int) -> None:
        now = self._clock()
        self._endings[number] = _Ending(most=now + self._most_s, due=now + self._due_s)

    def over(self, number: int) -> bool:
        """It has ended, or nobody waits for it any longer: whether that is so."""
        ending = self._endings.pop(number, None)
        return ending is not None and ending.due <= self._clock()

    def late(self) -> set[int]:
        """Who should have ended by now, and does not go on doing so."""
        now = self._clock()
        return {
            number
            for number, ending in self._endings.items()
            if ending.due <= now and not self._goes_on(number, ending, now)
        }

    def _goes_on(self, number: int, ending: _Ending, now: float) -> bool:
        """At first there is nothing to compare with: then there is another look."""
        before, ending.seen = ending.seen, self._spent(number)
        if now >= ending.most or ending.seen == before:
            return False
        ending.due = now + _LOOK_S
        return True

    def next_s(self) -> float | None:
        """Until the next is due; None if nobody is waited for."""
        if not self._endings:
            return None
        return max(0.0, min(ending.due for ending in self._endings.values()) - self._clock())
