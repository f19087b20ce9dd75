"""Two processes taking turns over shared memory: no message, and no system call that waits.

At the start of host memory that both have mapped lie three counters: how many keys the
verifier has given, how many of them the worker's device is done with, and how many calls are
queued, with one more when that is all. The worker's device waits for the first and writes the
second by itself: its processor has no part in it. Behind them lie the digests of what was done
last, and of what that left of its inputs, digests of each call's plain values, and the keys
(``gate_kernels.py``).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from gpu_sandbox.cuda.gate_kernels import DIGEST_BYTES, KEY_BYTES
from gpu_sandbox.ipc import cpu_call_messages
from gpu_sandbox.tensors.shared_arena import ALIGN, Arena

__all__ = ["GateChannel", "stream_write"]

_COUNTERS_BYTES = 3 * ALIGN
_PLAIN_BYTES = cpu_call_messages.DIGEST_BYTES
_LOOKS = 1000
"""Between two checks whether the other side is still there: well below a millisecond."""
_NO_FLAGS = 0
_MOST = 0x7FFFFFFF


class GateChannel:
    """The counters, each in a cache line of its own, and addresses of what comes with them, for so
    many ``calls``."""

    def __init__(self, arena: Arena, calls: int) -> None:
        self._calls = calls
        self._arena = arena  # the counters are only addresses: it must outlive them
        self.given_at, self.done_at, queued_at = (arena.address + i * ALIGN for i in range(3))
        self.given = ctypes.c_int32.from_address(self.given_at)
        self.done = ctypes.c_int32.from_address(self.done_at)
        self.queued = ctypes.c_int32.from_address(queued_at)
        self.digest_at = arena.address + _COUNTERS_BYTES
        self.left_at = self.digest_at + DIGEST_BYTES

    @staticmethod
    def size(keys: int, calls: int) -> int:
        """Of the memory that this takes."""
        return _COUNTERS_BYTES + 2 * DIGEST_BYTES + calls * _PLAIN_BYTES + keys * KEY_BYTES

    def _plain_at(self, call: int) -> int:
        return self.left_at + DIGEST_BYTES + call * _PLAIN_BYTES

    def key_at(self, number: int) -> int:
        return self._plain_at(self._calls) + number * KEY_BYTES

    def commit(self, call: int, plain: bytes) -> None:
        """To its plain values, before it counts as done."""
        ctypes.memmove(self._plain_at(call), plain, _PLAIN_BYTES)

    def plain(self, calls: range) -> list[bytes]:
        """What these have committed to, as it is now."""
        return [ctypes.string_at(self._plain_at(call), _PLAIN_BYTES) for call in calls]

    def give(self, number: int, key: bytes) -> None:
        """The key, and then the word that it is there."""
        ctypes.memmove(self.key_at(number), key, KEY_BYTES)
        self.given.value = number + 1

    def digest(self, size: int, left: int) -> bytes:
        """Of what was done last, and of what it left of its inputs, as they are now."""
        return ctypes.string_at(self.digest_at, size) + ctypes.string_at(self.left_at, left)

    @contextmanager
    def released(self) -> Iterator[None]:
        """What goes wrong meanwhile leaves no device waiting for keys: those that were not given
        open nothing."""
        try:
            yield
        except BaseException:
            self.given.value = _MOST
            raise

    def reset(self) -> None:
        self.given.value = self.done.value = self.queued.value = 0
        ctypes.memset(self._plain_at(0), 0, self._calls * _PLAIN_BYTES)

    @staticmethod
    def wait(counter: ctypes.c_int32, number: int, go_on: Callable[[], bool]) -> bool:
        """Whether it has reached ``number``; ``go_on``, asked now and then, ends the wait."""
        while True:
            for _ in range(_LOOKS):
                if counter.value >= number:
                    return True
                os.sched_yield()  # the other may have to share our core
            if not go_on():
                return False


def stream_write(stream: int, address: int, number: int) -> None:
    """Count when everything that was queued before is done."""
    code = _cu_write()(stream, address, number, _NO_FLAGS)
    if code:
        raise RuntimeError(f"cuStreamWriteValue32 failed with CUDA driver error {code}")


@cache
def _cu_write() -> Any:
    write = ctypes.CDLL("libcuda.so.1").cuStreamWriteValue32_v2
    write.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]
    return write
