"""Messages of a timed call on the CPU: a few bytes each way, no frames.

What a worker does besides its call while the clock runs is overhead that a worker could skip, and
decoding a frame takes 0.2 ms of that. So only this is left; all else is done before or after
(``StandBy``, ``Describe``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

SEED_BYTES = 8  # to the worker: the seed of its call, which begins; an ``Answer`` comes back
_FAILED = -1  # in place of nanoseconds; the reason follows in a frame
NOWHERE = 0  # address of an output that is not as expected, which is described afterwards
DIGEST_BYTES = 16
NOTHING_PLAIN = bytes(DIGEST_BYTES)  # in place of a digest of plain values, if there are none
PAGEMAP = "/proc/self/pagemap"


class Where(NamedTuple):
    """An output: the address of its first element in the worker's memory, and its stride."""

    address: int
    stride: tuple[int, ...]


class Answer:
    """A worker's answer: the time of its call, where its outputs of so many dimensions each are,
    and a digest of their plain values, so that these can't be computed until they are described."""

    def __init__(self, dimensions: Sequence[int]) -> None:
        self._dimensions = dimensions
        self._words = struct.Struct(f"<{1 + len(dimensions) + sum(dimensions)}q{DIGEST_BYTES}s")
        self.size = self._words.size
        nothing = [0] * (len(dimensions) + sum(dimensions))
        self.failed = self._words.pack(_FAILED, *nothing, NOTHING_PLAIN)

    def encode(
        self,
        elapsed_ns: int,
        outputs: Iterable[tuple[int, tuple[int, ...]]],
        plain: bytes = NOTHING_PLAIN,
    ) -> bytes:
        """``outputs``: one for each that is expected."""
        words = [elapsed_ns]
        for address, stride in outputs:
            words.append(address)
            words += stride
        return self._words.pack(*words, plain)

    def decode(self, said: bytes) -> tuple[int, list[Where], bytes] | None:
        """None: the call has failed."""
        elapsed_ns, *words, plain = self._words.unpack(said)
        if elapsed_ns == _FAILED:
            return None
        return elapsed_ns, list(self._outputs(iter(words))), plain

    def _outputs(self, words: Iterator[int]) -> Iterator[Where]:
        for dimensions in self._dimensions:
            yield Where(next(words), tuple(next(words) for _ in range(dimensions)))
