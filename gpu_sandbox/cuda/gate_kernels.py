"""Inputs that are there and can't be read yet, and outputs that can't be changed any more.

A worker's device holds its inputs enciphered, until a key in host memory opens them; every output
goes to its place enciphered by the same key, so that it takes as long for who has computed it
there as for who has not; and of every output it leaves a digest there, which is held against what
the memory holds afterwards. So the outer clock runs from a word that is written to one that is
read: no message is sent meanwhile, and no other process needs the device.

All are kernels (``gate_kernels.cu``).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import msgspec
import torch

from gpu_sandbox.cuda.nvrtc import OwnKernels
from gpu_sandbox.ipc.worker_messages import Gate, Spot
from gpu_sandbox.tensors.memory_layout import reach_bytes
from gpu_sandbox.tensors.shared_arena import Arena, dtype_of, place, reach_of

__all__ = [
    "DIGEST_BYTES",
    "KEY_BYTES",
    "Kernels",
    "Rows",
    "Stretches",
    "digest_bytes",
    "rounds",
    "rows_of",
]

KEY_BYTES = 32
_BLOCK_BYTES = 64
_THREADS = 256
_MOST_GROUPS = 256
_INPUTS, _OUTPUTS = 0, 2
"""Of the keystream."""
_ALIGNED = 16
_WORD = torch.int64
"""A call's bytes are many of these."""
DIGEST_BYTES = 32 * _MOST_GROUPS
"""At most: 32 for each group of threads."""


class Stretches(msgspec.Struct, frozen=True):
    """Of device memory: one for each call, of ``size`` bytes, a multiple of 64, and each ``stride``
    bytes behind the one before."""

    address: int
    size: int
    stride: int

    @classmethod
    def of(cls, places: Sequence[list[Spot]], address: int = 0) -> Stretches:
        """Each from the first of a call's spots, which lie one behind the other, to the last, in an
        arena that begins at ``address``."""
        starts = [min((spot.offset for spot in spots), default=0) for spots in places[:2]]
        size = max(reach_of(places[0]) - starts[0], 0)
        return cls(address + starts[0], size, starts[-1] - starts[0])

    def call(self, number: int) -> int:
        """The address of that call's."""
        return self.address + number * self.stride

    def block(self, number: int, address: int, calls: range) -> int:
        """Of an address in that call's, which block it is of a round of these calls."""
        within = address - self.call(number)
        return ((number - calls.start) * self.size + within) // _BLOCK_BYTES


class Rows:
    """A stretch of memory for each call, which no worker sees or changes."""

    def __init__(self, tensors: list[torch.Tensor], calls: int, device: torch.device) -> None:
        self._spots, self._size = place(tensors, 0)
        words = torch.zeros(calls, self._size // _WORD.itemsize, dtype=_WORD, device=device)
        memory = words.view(-1).view(torch.uint8)
        self._words, self.bytes = words, memory.view(calls, self._size)
        starts = [number * self._size for number in range(calls)]
        self.views = [Arena(memory[k : k + self._size]).views(self._spots) for k in starts]

    def first(self, calls: int) -> Rows:
        """Those of so many calls: the same memory."""
        fewer = copy.copy(self)
        fewer.bytes, fewer.views = self.bytes[:calls], self.views[:calls]
        fewer._words = self._words[:calls]
        return fewer

    def taken(
        self, calls: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> list[list[torch.Tensor]]:
        """Private copies of what these calls have there, each tensor as it lies by such a stride
        within its place: as many commands for one call as for all."""
        which = torch.tensor(calls, dtype=torch.int64, device=self._words.device)
        own = self._words.index_select(0, which).view(-1)
        found: list[Sequence[torch.Tensor]] = []
        for spot, stride in zip(self._spots, strides, strict=True):
            typed = own.view(dtype_of(spot))
            size, steps = (len(calls), *spot.shape), (self._size // typed.itemsize, *stride)
            found.append(typed.as_strided(size, steps, spot.offset // typed.itemsize).unbind())
        return [[each[number] for each in found] for number in range(len(calls))]

    @property
    def stretches(self) -> Stretches:
        return Stretches(self.bytes.data_ptr(), self._size, self._size)


def rows_of(arena: Arena, places: Sequence[list[Spot]]) -> torch.Tensor:
    """The bytes of each call's in an arena, as ``Rows`` has them: (calls, bytes)."""
    found = Stretches.of(places)
    whole = arena.stretch(found.address, arena.size)
    return whole.as_strided((len(places), found.size), (found.stride, 1))


class Kernels(OwnKernels):
    """Loaded into the current context. Queued on streams; nothing is waited for."""

    def __init__(self, image: bytes) -> None:
        super().__init__(image)
        self.taken_at = self.address_of("taken")
        """Where the key is that ``take`` has taken."""

    def take(self, stream: int, counter_at: int, least: int, key_at: int) -> None:
        """What is queued after this begins when the counter at that address has reached it, and
        the key, which is there then, is in the device's own memory."""
        self.launch("take", stream, (1, 1, 1), counter_at, least, key_at)

    def seal(
        self, stream: int, places: Stretches, calls: range, key_at: int, rounds: int = 1
    ) -> None:
        """Encipher the inputs of these calls by the key at that address, or decipher what was
        enciphered by it. Each round of as many calls has a key of its own."""
        self._work("seal", stream, places, calls, rounds, key_at, _INPUTS)

    def unseal_outputs(
        self, stream: int, places: Stretches, calls: range, key_at: int, rounds: int = 1
    ) -> None:
        """What ``put`` has enciphered."""
        self._work("seal", stream, places, calls, rounds, key_at, _OUTPUTS)

    def put(
        self, stream: int, tensor: torch.Tensor, to: torch.Tensor, first: int, key_at: int
    ) -> None:
        """Encipher what a tensor holds into ``to``, of the same shape, dtype and device, which
        begins with the block ``first`` of its round. ``stream`` is the current one."""
        tensor = tensor.detach()
        if not _lies_as(tensor, to):
            tensor = _relaid(tensor, to)
        if size := reach_bytes(to):
            grid = (_groups(size), 1, _THREADS)
            self.launch("put", stream, grid, tensor.data_ptr(), to.data_ptr(), size, first, key_at)

    def digest(
        self, stream: int, places: Stretches, calls: range, into: int, rounds: int = 1
    ) -> None:
        """``digest_bytes`` for each round, to that address."""
        self._work("digest", stream, places, calls, rounds, into)

    def _work(
        self, name: str, stream: int, places: Stretches, calls: range, rounds: int, *more: int
    ) -> None:
        groups = _groups(places.size * len(calls))
        if groups:
            address, blocks = places.call(calls.start), places.size // _BLOCK_BYTES
            grid = (groups, rounds, _THREADS)
            self.launch(name, stream, grid, address, blocks, len(calls), places.stride, *more)


def _lies_as(tensor: torch.Tensor, to: torch.Tensor) -> bool:
    """Whether it has memory that holds it just as ``to`` would."""
    mine, theirs = tensor.stride(), to.stride()
    steps = zip(to.shape, mine, theirs, strict=True)
    return (
        type(tensor) is torch.Tensor
        and tensor.device == to.device
        and (mine == theirs or all(size <= 1 or one == other for size, one, other in steps))
        and tensor.data_ptr() % _ALIGNED == 0
        and not (tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor())
    )


def _relaid(tensor: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    """A copy that does."""
    lies = torch.empty_strided(to.shape, to.stride(), dtype=to.dtype, device=to.device)
    return lies.copy_(tensor)


def rounds(gate: Gate, calls: int) -> list[range]:
    """Which calls one key lets in."""
    size = 1 if gate == "each" else calls
    return [range(first, first + size) for first in range(0, calls, size)]


def digest_bytes(size: int) -> int:
    """Of what has so many."""
    return 32 * _groups(size)


def _groups(size: int) -> int:
    """Of threads that work on so many bytes."""
    return min(-(-size // (_BLOCK_BYTES * _THREADS)), _MOST_GROUPS)
