"""What verifier and worker tell each other while the CPU's one call is timed: a few bytes each.

Frames are for when nobody waits. What a worker does besides its call while the clock runs is in
what the baseline spends besides its own, and whoever does without is credited with it: frames,
decoded and answered by Python that has left the caches, were 0.2 ms. So all that can be done
before or after is (``StandBy``, ``Describe``), and this is what is left.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

SEED_BYTES = 8
"""To the worker the seed of its call, which is to begin; back comes an ``Answer``."""
_FAILED = -1
"""In the place of nanoseconds. The reason comes in a frame."""


class Where(NamedTuple):
    """An output: the address of its first element in the worker's memory, and its stride."""

    address: int
    stride: tuple[int, ...]


NOWHERE = 0
"""The address of an output that is not what was expected, which is told afterwards."""
DIGEST_BYTES = 16
NOTHING_PLAIN = bytes(DIGEST_BYTES)
"""In the place of a digest (``values.plain_digest``) of an output of tensors alone."""


class Answer:
    """How a worker says what its call took and where its outputs are, of so many dimensions
    each. What else is in its output is told afterwards, too, in a frame; so that it can't be worked
    out meanwhile, a digest of it is here."""

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
        """The bytes of it. ``outputs``: one for each that is expected."""
        words = [elapsed_ns]
        for address, stride in outputs:
            words.append(address)
            words += stride
        return self._words.pack(*words, plain)

    def decode(self, said: bytes) -> tuple[int, list[Where], bytes] | None:
        """What bytes of this size say; None that the call has failed."""
        elapsed_ns, *words, plain = self._words.unpack(said)
        if elapsed_ns == _FAILED:
            return None
        return elapsed_ns, list(self._outputs(iter(words))), plain

    def _outputs(self, words: Iterator[int]) -> Iterator[Where]:
        for dimensions in self._dimensions:
            yield Where(next(words), tuple(next(words) for _ in range(dimensions)))


PAGEMAP = "/proc/self/pagemap"
