"""Two processes taking turns over shared memory: no message, and no system call that waits.

Host memory that both have mapped: the inputs of one call, its outputs, and behind them two
counters. The verifier puts inputs there and counts them as given; the worker does the call
and counts it as done. Neither believes more than that the other's counter has moved.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from gpu_sandbox.child.arena import ALIGN, Arena

__all__ = ["TURNS_BYTES", "Turns"]

TURNS_BYTES = 2 * ALIGN
_LOOKS = 2000
"""Between two checks whether the other side is still there: well below a millisecond."""


class Turns:
    """The counters, ``after`` so many bytes of an arena of host memory."""

    def __init__(self, arena: Arena, after: int) -> None:
        start = arena.address + -(-after // ALIGN) * ALIGN
        self.given = ctypes.c_int64.from_address(start)
        self.done = ctypes.c_int64.from_address(start + ALIGN)

    def reset(self) -> None:
        self.given.value = self.done.value = 0

    @staticmethod
    def wait(counter: ctypes.c_int64, number: int, still: Callable[[], object]) -> None:
        """Until it has reached ``number``. ``still`` is asked now and then, and raises to
        end the wait."""
        while True:
            for _ in range(_LOOKS):
                if counter.value >= number:
                    return
                os.sched_yield()  # the other may have to share our core
            still()
