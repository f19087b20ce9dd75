"""CUDA memory that two processes of any users share by descriptor.

CUDA IPC handles can be opened by the same user only. Memory of the driver's virtual memory
management (``cuMem*``) is exported as a descriptor instead. Needs torch's primary context to be
current, so a tensor must have been made on the device before.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

_PINNED, _ON_DEVICE, _POSIX_FD, _READ_WRITE = 1, 1, 1, 3
_MINIMUM_GRANULARITY = 0
_OUT_OF_MEMORY = 2


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """``CUmemAllocationProp``."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _do(name: str, *arguments: Any) -> None:
    code = getattr(_driver(), name)(*arguments)
    if code == _OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(f"{name} failed: there is no more memory")
    if code:
        raise RuntimeError(f"{name} failed with CUDA driver error {code}")


class DeviceMemory:
    """A mapped allocation. ``tensor`` sees its bytes; ``close`` when no view is left."""

    def __init__(self, handle: ctypes.c_uint64, size: int, device: torch.device) -> None:
        self._handle = handle
        self._size = size
        self._address = ctypes.c_uint64()
        index = device.index or 0
        _do("cuMemAddressReserve", ctypes.byref(self._address), ctypes.c_size_t(size),
            ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))  # fmt: skip
        _do("cuMemMap", self._address, ctypes.c_size_t(size), ctypes.c_size_t(0), handle,
            ctypes.c_uint64(0))  # fmt: skip
        access = _Access(_Location(_ON_DEVICE, index), _READ_WRITE)
        _do("cuMemSetAccess", self._address, ctypes.c_size_t(size), ctypes.byref(access),
            ctypes.c_size_t(1))  # fmt: skip
        self._device = device
        self.tensor = self.part(0, size)

    @classmethod
    def create(cls, wanted_bytes: int, device: torch.device) -> DeviceMemory:
        """Rounds up to the driver's granularity."""
        index = device.index or 0
        properties = _Properties(_PINNED, _POSIX_FD, _Location(_ON_DEVICE, index), None)
        granularity = ctypes.c_size_t()
        _do("cuMemGetAllocationGranularity", ctypes.byref(granularity),
            ctypes.byref(properties), ctypes.c_int(_MINIMUM_GRANULARITY))  # fmt: skip
        size = -(-wanted_bytes // granularity.value) * granularity.value
        handle = ctypes.c_uint64()
        try:
            _create(handle, size, properties)
        except RuntimeError:  # torch's cache may hold what is free otherwise
            torch.cuda.empty_cache()
            _create(handle, size, properties)
        return cls(handle, size, device)

    @classmethod
    def open(cls, fd: int, size: int, device: torch.device) -> DeviceMemory:
        handle = ctypes.c_uint64()
        _do("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd),
            ctypes.c_int(_POSIX_FD))  # fmt: skip
        return cls(handle, size, device)

    @property
    def size(self) -> int:
        return self._size

    def part(self, offset: int, size: int) -> torch.Tensor:
        return torch.as_tensor(_Bytes(self._address.value + offset, size), device=self._device)

    def export(self) -> int:
        """A descriptor, which the caller closes."""
        fd = ctypes.c_int(-1)
        _do("cuMemExportToShareableHandle", ctypes.byref(fd), self._handle,
            ctypes.c_int(_POSIX_FD), ctypes.c_uint64(0))  # fmt: skip
        return fd.value

    def close(self) -> None:
        del self.tensor
        _do("cuMemUnmap", self._address, ctypes.c_size_t(self._size))
        _do("cuMemAddressFree", self._address, ctypes.c_size_t(self._size))
        _do("cuMemRelease", self._handle)


def _create(handle: ctypes.c_uint64, size: int, properties: _Properties) -> None:
    _do("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties),
        ctypes.c_uint64(0))  # fmt: skip


class _Bytes:
    """Foreign device memory for ``torch.as_tensor``."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }
