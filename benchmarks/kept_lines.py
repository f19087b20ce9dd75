"""What a program can keep in the L2 across what overwrites it: readings of a call on a weight, for
each way of asking for it to stay, behind each way of overwriting.

    python -m benchmarks.kept_lines [--device cuda:0] [--megabytes 4,16,28]

Readings are of events on a quiet device, microseconds, the median of 60. "not overwritten" is what
a call takes whose weight is in the cache; who reads as much behind what overwrites it has kept it.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from gpu_sandbox.api.statistics import quantile
from gpu_sandbox.cuda.nvrtc import OwnKernels, compiled
from gpu_sandbox.worker.backends.cuda_cold_cache import CudaColdCache

_READINGS, _COVER_US = 60, 100
_STREAMING, _PERSISTING = 1, 2
_PERSISTING_LIMIT, _MOST_PERSISTING, _LONGEST_WINDOW = 6, 108, 109


class _Window(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("padding", ctypes.c_char * 64),
    )


class Asking:
    """What CUDA's runtime is asked for, of the default stream."""

    def __init__(self, device: torch.device) -> None:
        self._number = device.index or 0
        with open("/proc/self/maps", encoding="utf-8") as maps:
            self._runtime = ctypes.CDLL(next(x.split()[-1] for x in maps if "libcudart" in x))

    def most_set_aside(self) -> int:
        return self._attribute(_MOST_PERSISTING)

    def window(self, tensor: torch.Tensor | None, hit: int = 0) -> None:
        address, size = (tensor.data_ptr(), tensor.nbytes) if tensor is not None else (None, 0)
        size = min(size, self._attribute(_LONGEST_WINDOW))
        window = _Window(address, size, 1.0, hit, 0)
        self._do("cudaStreamSetAttribute", ctypes.c_void_p(0), 1, ctypes.byref(window))

    def set_aside(self, size: int) -> None:
        self._do("cudaDeviceSetLimit", _PERSISTING_LIMIT, ctypes.c_size_t(size))

    def _attribute(self, which: int) -> int:
        found = ctypes.c_int()
        self._do("cudaDeviceGetAttribute", ctypes.byref(found), which, self._number)
        return found.value

    def reset(self) -> None:
        self._do("cudaCtxResetPersistingL2Cache")

    def _do(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._runtime, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {code}")


class Readings:
    """Of calls, behind each way of overwriting."""

    def __init__(self, device: torch.device, asking: Asking) -> None:
        self._size = 2 * int(torch.cuda.get_device_properties(device).L2_cache_size)
        self.cold, self._kernels = CudaColdCache(device), OwnKernels(compiled(device))
        self._reset = asking.reset
        self.ways: dict[str, Callable[[], Any]] = {
            "not overwritten": lambda: self.cold.events(0, _COVER_US),
            "zeros": lambda: self.cold.events(self._size, _COVER_US),
            "reset, zeros": self._reset_first,
            "as it is done": lambda: self.cold.events(self._size, _COVER_US, self._kernels),
        }

    def _reset_first(self) -> Any:
        torch.cuda.synchronize()  # it takes effect at once
        self._reset()
        return self.cold.events(self._size, _COVER_US)

    @property
    def overwritten(self) -> torch.Tensor:
        self.ways["zeros"]()
        assert self.cold._scratch is not None
        return self.cold._scratch

    def us(self, way: str, call: Callable[[], Any]) -> float:
        marks = []
        for _ in range(_READINGS):
            start, end = self.ways[way]()
            self.cold.mark(start)
            call()
            self.cold.mark(end)
            marks.append((start, end))
        torch.cuda.synchronize()
        return quantile([1e3 * float(start.elapsed_time(end)) for start, end in marks], 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--megabytes", default="4,16,28", help="of weights")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    torch.cuda.set_device(device)
    torch.zeros(1, device=device)
    asking = Asking(device)
    readings = Readings(device, asking)
    _tell("asks for", list(readings.ways))
    for megabytes in map(int, asked.megabytes.split(",")):
        weight = torch.randn(megabytes << 8, 1024, device=device)
        for what in _asked(asking, weight, readings.overwritten):
            x = torch.randn(1, 1024, device=device)
            taken = [readings.us(way, partial(torch.mm, x, weight.T)) for way in readings.ways]
            _tell(f"{megabytes} MB: {what}", [f"{us:.2f}" for us in taken])


def _asked(asking: Asking, weight: torch.Tensor, overwritten: torch.Tensor) -> Iterator[str]:
    """What is asked for at the moment."""
    yield "nothing"
    for size in (16 << 20, asking.most_set_aside()):
        asking.set_aside(size)
        asking.window(weight, _PERSISTING)
        yield f"the weight to stay, {size >> 20} MB set aside"
        asking.window(None)
        asking.set_aside(0)
        asking.reset()
    asking.window(overwritten, _STREAMING)
    yield "what overwrites to go first"
    asking.window(None)


def _tell(name: str, cells: list[str]) -> None:
    print(name.ljust(44), *(cell.rjust(16) for cell in cells), flush=True)


if __name__ == "__main__":
    main()
