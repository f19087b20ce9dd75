"""Memory layout of gated calls: regions, encryption blocks, digests; and the kernels' protocol.

Inputs lie encrypted in the worker's device memory until their key comes. Outputs are stored
encrypted under the same key, so that a kernel that computes in place saves nothing, and digested:
the verifier compares what it reads later with that digest.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

import msgspec
import torch

from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.ipc.worker_messages import Gate
from gpu_sandbox.tensors.shared_arena import Arena, dtype_of, place, reach_of

KEY_BYTES = 32
BLOCK_BYTES = 64  # of the keystream
THREADS = 256  # of a group
_MAX_GROUPS = 256
DIGEST_BYTES = 32 * _MAX_GROUPS  # at most: 32 for each group of threads
_WORD = torch.int64  # a call's bytes are a multiple of these


class StridedRegions(msgspec.Struct, frozen=True):
    """One region of device memory for each call: ``size`` bytes, a multiple of 64, each ``stride``
    bytes behind the one before."""

    address: int
    size: int
    stride: int

    @classmethod
    def of(cls, places: Sequence[list[Spot]], address: int = 0) -> StridedRegions:
        """From the first of a call's adjacent spots to the last, in an arena at ``address``."""
        starts = [min((spot.offset for spot in spots), default=0) for spots in places[:2]]
        size = max(reach_of(places[0]) - starts[0], 0)
        return cls(address + starts[0], size, starts[-1] - starts[0])

    def call(self, number: int) -> int:
        """The address of that call's region."""
        return self.address + number * self.stride

    def block(self, number: int, address: int, calls: range) -> int:
        """The number, within a round of these calls, of the block at an address of that call."""
        within = address - self.call(number)
        return ((number - calls.start) * self.size + within) // BLOCK_BYTES


class CallBuffers:
    """The verifier's private memory for tensors of several calls, a row of bytes for each call."""

    def __init__(self, tensors: list[torch.Tensor], calls: int, device: torch.device) -> None:
        self._spots, self._size = place(tensors, 0)
        words = torch.zeros(calls, self._size // _WORD.itemsize, dtype=_WORD, device=device)
        memory = words.view(-1).view(torch.uint8)
        self._words, self.bytes = words, memory.view(calls, self._size)
        starts = [number * self._size for number in range(calls)]
        self.views = [Arena(memory[k : k + self._size]).views(self._spots) for k in starts]

    def first(self, calls: int) -> CallBuffers:
        """Those of the first ``calls`` calls, in the same memory."""
        fewer = copy.copy(self)
        fewer.bytes, fewer.views = self.bytes[:calls], self.views[:calls]
        fewer._words = self._words[:calls]
        return fewer

    def copies(
        self, calls: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> list[list[torch.Tensor]]:
        """Private copies of these calls' tensors, each read with the given stride: as many
        commands for one call as for all."""
        which = torch.tensor(calls, dtype=torch.int64, device=self._words.device)
        own = self._words.index_select(0, which).view(-1)
        found: list[Sequence[torch.Tensor]] = []
        for spot, stride in zip(self._spots, strides, strict=True):
            typed = own.view(dtype_of(spot))
            size, steps = (len(calls), *spot.shape), (self._size // typed.itemsize, *stride)
            found.append(typed.as_strided(size, steps, spot.offset // typed.itemsize).unbind())
        return [[each[number] for each in found] for number in range(len(calls))]

    @property
    def regions(self) -> StridedRegions:
        return StridedRegions(self.bytes.data_ptr(), self._size, self._size)


def bytes_of_calls(arena: Arena, places: Sequence[list[Spot]]) -> torch.Tensor:
    """The bytes of each call in an arena, laid out as in ``CallBuffers``: (calls, bytes)."""
    found = StridedRegions.of(places)
    whole = arena.stretch(found.address, arena.size)
    return whole.as_strided((len(places), found.size), (found.stride, 1))


def rounds(gate: Gate, calls: int) -> list[range]:
    """The calls that each key releases."""
    size = 1 if gate == "each" else calls
    return [range(first, first + size) for first in range(0, calls, size)]


def digest_bytes(size: int) -> int:
    """Bytes of the digest of ``size`` bytes."""
    return 32 * thread_groups(size)


def thread_groups(size: int) -> int:
    """Groups of threads that work on ``size`` bytes."""
    return min(-(-size // (BLOCK_BYTES * THREADS)), _MAX_GROUPS)


class LaunchesKernels(Protocol):
    """The harness's own kernels, loaded into this process's context."""

    def launch(self, name: str, stream: int, grid: tuple[int, int, int], *values: int) -> None:
        """Queue one. ``grid``: groups wide and high, and threads of each."""


class GateKernels(LaunchesKernels, Protocol):
    """Kernels of gates, queued on streams. Nothing is waited for."""

    taken_at: int
    """Device address of the key that ``wait_for_key`` has copied."""

    def wait_for_key(self, stream: int, counter_at: int, least: int, key_at: int) -> None:
        """Hold the stream until the counter at that address reaches ``least``; then copy the key
        from host memory to the device's."""

    def crypt_inputs(
        self, stream: int, places: StridedRegions, calls: range, key_at: int, rounds: int = 1
    ) -> None:
        """Encrypt the inputs of these calls by the key at that address, or decrypt them. Each of
        ``rounds`` rounds of as many calls has a key of its own."""

    def decrypt_outputs(
        self, stream: int, places: StridedRegions, calls: range, key_at: int, rounds: int = 1
    ) -> None:
        """Decrypt what ``store_encrypted`` has stored."""

    def store_encrypted(
        self, stream: int, tensor: torch.Tensor, to: torch.Tensor, first: int, key_at: int
    ) -> None:
        """Encrypt a tensor into ``to``, of the same shape, dtype and device, which begins with
        block ``first`` of its round. ``stream`` is the current one."""

    def digest(
        self, stream: int, places: StridedRegions, calls: range, into: int, rounds: int = 1
    ) -> None:
        """Write ``digest_bytes`` for each round to that address."""
