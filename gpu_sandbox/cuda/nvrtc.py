"""The harness's own CUDA kernels (``gate_kernels.cu``, ``cold_cache.cu``): compiled and loaded.

The verifier compiles them for its device by torch's NVRTC; a worker loads what it is given.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.accelerator.accelerator import NoKernels

_NAMES = ("take", "seal", "put", "digest", "overwrite", "let_go")
# One program: the first defines what both use.
_SOURCES = [Path(__file__).with_name(name) for name in ("gate_kernels.cu", "cold_cache.cu")]


class OwnKernels:
    """Loaded into the current context; ``launch`` queues one."""

    def __init__(self, image: bytes) -> None:
        self._module = ctypes.c_void_p()
        _do("cuModuleLoadData", ctypes.byref(self._module), image)
        self._functions: dict[str, ctypes.c_void_p] = {}
        for name in _NAMES:
            function = ctypes.c_void_p()
            _do("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
            self._functions[name] = function

    def address_of(self, name: str) -> int:
        """Address of a variable in device memory."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        at = ctypes.byref(address), ctypes.byref(size)
        _do("cuModuleGetGlobal_v2", *at, self._module, name.encode())
        return address.value

    def launch(self, name: str, stream: int, grid: tuple[int, int, int], *values: int) -> None:
        """Queue one. ``grid``: groups wide and high, and threads of each. All arguments are 8
        bytes; a kernel that takes fewer reads the first of them."""
        held, arguments = _arguments(len(values))
        held[:] = values
        wide, high, threads = grid
        code = _cu_launch()(
            self._functions[name], wide, high, 1, threads, 1, 1, 0, stream, arguments, None
        )
        if code:
            raise RuntimeError(f"cuLaunchKernel failed with CUDA driver error {code}")


@cache
def _arguments(count: int) -> tuple[Any, Any]:
    """Memory for so many arguments and their addresses; a launch copies them. Kept, since making it
    takes longer than a launch."""
    held = (ctypes.c_uint64 * count)()
    first, each = ctypes.addressof(held), ctypes.sizeof(ctypes.c_uint64)
    return held, (ctypes.c_uint64 * count)(*range(first, first + count * each, each))


@cache
def _cu_launch() -> Any:
    """With argument types set once: that takes longer than the call."""
    launch = _driver().cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    return launch


def begin_compiling(device: torch.device) -> None:
    """In a thread: NVRTC takes half a second, without the device and Python's lock."""
    _compiling(_architecture(device))


def compiled(device: torch.device) -> bytes:
    """The kernels as machine code for that device. Raises ``NoKernels``."""
    return _compiling(_architecture(device)).result()


def _architecture(device: torch.device) -> str:
    return "sm_{}{}".format(*torch.cuda.get_device_capability(device))


@cache
def _compiling(architecture: str) -> Future[bytes]:
    threads = ThreadPoolExecutor(1)
    try:
        return threads.submit(_compiled, architecture)
    finally:
        threads.shutdown(wait=False)


def _compiled(architecture: str) -> bytes:
    rtc = _nvrtc()
    program = ctypes.c_void_p()
    source = b"\n".join(path.read_bytes() for path in _SOURCES)
    _checked(rtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None))
    try:
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
        if rtc.nvrtcCompileProgram(program, 1, options):
            said = _taken(program, rtc.nvrtcGetProgramLogSize, rtc.nvrtcGetProgramLog)
            raise NoKernels(f"NVRTC: {said.decode(errors='replace').strip()}")
        return _taken(program, rtc.nvrtcGetCUBINSize, rtc.nvrtcGetCUBIN)
    finally:
        rtc.nvrtcDestroyProgram(ctypes.byref(program))


def _taken(program: ctypes.c_void_p, get_size: Any, get: Any) -> bytes:
    size = ctypes.c_size_t()
    _checked(get_size(program, ctypes.byref(size)))
    room = ctypes.create_string_buffer(size.value)
    _checked(get(program, room))
    return room.raw


def _checked(code: int) -> None:
    if code:
        raise NoKernels(f"NVRTC failed with error {code}")


def _nvrtc() -> Any:
    """The library that torch is linked with."""
    torch.cuda.init()  # type: ignore[no-untyped-call]
    path = Path(torch.__path__[0]) / "lib" / "libcaffe2_nvrtc.so"
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NoKernels(f"there is no NVRTC: {error}") from None


@cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _do(name: str, *arguments: Any) -> None:
    code = getattr(_driver(), name)(*arguments)
    if code:
        raise RuntimeError(f"{name} failed with CUDA driver error {code}")
