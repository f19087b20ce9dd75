"""Kernels of gates on CUDA (``gate_kernels.cu``): wait for a key, encrypt, decrypt, digest."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch

from gpu_sandbox.cuda.nvrtc import OwnKernels
from gpu_sandbox.tensors.gate_layout import BLOCK_BYTES, THREADS, StridedRegions, thread_groups
from gpu_sandbox.tensors.memory_layout import reach_bytes

_INPUTS, _OUTPUTS = 0, 2  # domains of the keystream
_ALIGNED = 16
_NO_FLAGS = 0


class Kernels(OwnKernels):
    """``GateKernels``, loaded into the current context."""

    def __init__(self, image: bytes) -> None:
        super().__init__(image)
        self.taken_at = self.address_of("taken")

    def wait_for_key(self, stream: int, counter_at: int, least: int, key_at: int) -> None:
        self.launch("take", stream, (1, 1, 1), counter_at, least, key_at)

    def crypt_inputs(
        self, stream: int, places: StridedRegions, calls: range, key_at: int, rounds: int = 1
    ) -> None:
        self._work("seal", stream, places, calls, rounds, key_at, _INPUTS)

    def decrypt_outputs(
        self, stream: int, places: StridedRegions, calls: range, key_at: int, rounds: int = 1
    ) -> None:
        self._work("seal", stream, places, calls, rounds, key_at, _OUTPUTS)

    def store_encrypted(
        self, stream: int, tensor: torch.Tensor, to: torch.Tensor, first: int, key_at: int
    ) -> None:
        tensor = tensor.detach()
        if not _is_laid_out_as(tensor, to):
            tensor = _relaid(tensor, to)
        if size := reach_bytes(to):
            grid = (thread_groups(size), 1, THREADS)
            self.launch("put", stream, grid, tensor.data_ptr(), to.data_ptr(), size, first, key_at)

    def digest(
        self, stream: int, places: StridedRegions, calls: range, into: int, rounds: int = 1
    ) -> None:
        self._work("digest", stream, places, calls, rounds, into)

    def _work(
        self, name: str, stream: int, places: StridedRegions, calls: range, rounds: int, *more: int
    ) -> None:
        groups = thread_groups(places.size * len(calls))
        if groups:
            address, blocks = places.call(calls.start), places.size // BLOCK_BYTES
            grid = (groups, rounds, THREADS)
            self.launch(name, stream, grid, address, blocks, len(calls), places.stride, *more)


def _is_laid_out_as(tensor: torch.Tensor, to: torch.Tensor) -> bool:
    """Whether its memory holds its elements just as ``to`` would."""
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
    copy = torch.empty_strided(to.shape, to.stride(), dtype=to.dtype, device=to.device)
    return copy.copy_(tensor)


def stream_write(stream: int, address: int, number: int) -> None:
    """Write to host memory when everything queued before is done."""
    code = _cu_write()(stream, address, number, _NO_FLAGS)
    if code:
        raise RuntimeError(f"cuStreamWriteValue32 failed with CUDA driver error {code}")


@cache
def _cu_write() -> Any:
    write = ctypes.CDLL("libcuda.so.1").cuStreamWriteValue32_v2
    write.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]
    return write
