"""Synchronization of gated calls through shared host memory, without messages or system calls.

Three counters: keys given by the verifier, rounds that the worker's device has finished, and calls
that are queued (one more when all are). The device waits for the first and writes the second by
itself. Behind them lie the digests of the last round's outputs and mutated inputs, a digest of each
call's plain values, and the keys (``gate_layout.py``).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpu_sandbox.ipc import cpu_call_messages
from gpu_sandbox.tensors.gate_layout import DIGEST_BYTES, KEY_BYTES
from gpu_sandbox.tensors.shared_arena import ALIGN, Arena

_COUNTERS_BYTES = 3 * ALIGN
_PLAIN_BYTES = cpu_call_messages.DIGEST_BYTES
_POLLS = 1000  # between two checks of the other side: well below a millisecond
_ALL_KEYS = 0x7FFFFFFF


class GateChannel:
    """Counters, each in a cache line of its own, digests and keys of a batch of ``calls``."""

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
        """Bytes of memory for so many keys and calls."""
        return _COUNTERS_BYTES + 2 * DIGEST_BYTES + calls * _PLAIN_BYTES + keys * KEY_BYTES

    def _plain_at(self, call: int) -> int:
        return self.left_at + DIGEST_BYTES + call * _PLAIN_BYTES

    def key_at(self, number: int) -> int:
        return self._plain_at(self._calls) + number * KEY_BYTES

    def commit(self, call: int, plain: bytes) -> None:
        """Store the digest of a call's plain values, before the call counts as done."""
        ctypes.memmove(self._plain_at(call), plain, _PLAIN_BYTES)

    def plain(self, calls: range) -> list[bytes]:
        """The digests that these calls have committed to, as they are now."""
        return [ctypes.string_at(self._plain_at(call), _PLAIN_BYTES) for call in calls]

    def give(self, number: int, key: bytes) -> None:
        """Store a key, then count it as given."""
        ctypes.memmove(self.key_at(number), key, KEY_BYTES)
        self.given.value = number + 1

    def digest(self, size: int, left: int) -> bytes:
        """Digests of the last round's outputs and of its mutated inputs, as they are now."""
        return ctypes.string_at(self.digest_at, size) + ctypes.string_at(self.left_at, left)

    @contextmanager
    def opened_on_error(self) -> Iterator[None]:
        """After an exception, let the device pass all gates: keys not given decrypt nothing."""
        try:
            yield
        except BaseException:
            self.given.value = _ALL_KEYS
            raise

    def reset(self) -> None:
        self.given.value = self.done.value = self.queued.value = 0
        ctypes.memset(self._plain_at(0), 0, self._calls * _PLAIN_BYTES)

    @staticmethod
    def wait(counter: ctypes.c_int32, number: int, go_on: Callable[[], bool]) -> bool:
        """Whether ``counter`` reached ``number`` before ``go_on`` returned False."""
        while True:
            for _ in range(_POLLS):
                if counter.value >= number:
                    return True
                os.sched_yield()  # the other side may share our core
            if not go_on():
                return False
