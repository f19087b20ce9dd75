"""NVML, the driver's management library, as a ``DriverAccount`` of one device.

Where there is no such library, or it does not answer, there is no ``Nvml``, or the answer is None.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

from gpu_sandbox.accelerator.driver_account import SLOWDOWNS, DeviceProcess

LIBRARY = "libnvidia-ml.so.1"
_SUCCESS, _TOO_SMALL = 0, 7
_SM_CLOCK = 1
_NOT_AVAILABLE = (1 << 64) - 1
_MAX_PROCESSES = 4096


class _ProcessInfo(ctypes.Structure):
    """``nvmlProcessInfo_t`` of version 2 and 3."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Memory(ctypes.Structure):
    """``nvmlMemory_v2_t``: ``used`` without what the driver keeps for itself."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilization(ctypes.Structure):
    """``nvmlUtilization_t``: percent of the driver's last sample period, a second at most."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Nvml:
    """``DriverAccount`` of one device, for as long as this process lives."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library = library
        self._handle = handle

    @classmethod
    def of(cls, uuid: str, library: str = LIBRARY) -> Nvml | None:
        """``uuid``: of the device, with or without the ``GPU-`` before it."""
        name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
        handle = ctypes.c_void_p()
        try:
            loaded = ctypes.CDLL(library)
            if loaded.nvmlInit_v2() != _SUCCESS:
                return None
            found = loaded.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
        except (OSError, AttributeError):  # no library, or one without these
            return None
        return cls(loaded, handle) if found == _SUCCESS else None

    def processes(self) -> list[DeviceProcess] | None:
        """All with a context. A driver omits those outside the caller's PID namespace; an older
        one gives the host's numbers."""
        count = ctypes.c_uint(64)
        while count.value <= _MAX_PROCESSES:
            room = (_ProcessInfo * count.value)()
            status = self._asked(
                "nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), room
            )
            if status == _SUCCESS:
                return [_on_device(info) for info in room[: count.value]]
            if status != _TOO_SMALL:
                return None
            count.value += 64  # the library has said how many; more may have come since
        return None

    def used_bytes(self) -> int | None:
        memory = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
        status = self._asked("nvmlDeviceGetMemoryInfo_v2", ctypes.byref(memory))
        return int(memory.used) if status == _SUCCESS else None

    def sm_mhz(self) -> int | None:
        clock = ctypes.c_uint()
        status = self._asked("nvmlDeviceGetClockInfo", _SM_CLOCK, ctypes.byref(clock))
        return clock.value if status == _SUCCESS else None

    def slowdowns(self) -> int | None:
        found = ctypes.c_ulonglong()
        status = self._asked("nvmlDeviceGetCurrentClocksEventReasons", ctypes.byref(found))
        if status is None:  # drivers before 535 have it by its older name only
            status = self._asked("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.byref(found))
        return found.value & sum(SLOWDOWNS) if status == _SUCCESS else None

    def utilization(self) -> int | None:
        """None for a slice of a device (MIG), which has no such figure."""
        found = _Utilization()
        status = self._asked("nvmlDeviceGetUtilizationRates", ctypes.byref(found))
        return int(found.gpu) if status == _SUCCESS else None

    def _asked(self, name: str, *arguments: Any) -> int | None:
        """The function's status; None if this library has none of that name."""
        function: Callable[..., int] | None = getattr(self._library, name, None)
        return function(self._handle, *arguments) if function is not None else None


def _on_device(info: Any) -> DeviceProcess:
    used = int(info.used)
    return DeviceProcess(int(info.pid), None if used == _NOT_AVAILABLE else used)


@functools.cache
def nvml_of(device: torch.device) -> Nvml | None:
    """The account of a CUDA device of torch; None where there is no library for it."""
    properties: Any = torch.cuda.get_device_properties(device)
    return Nvml.of(str(getattr(properties, "uuid", "")))
