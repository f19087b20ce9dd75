"""Worker on the host's processor."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from contextlib import suppress
from typing import Any, NoReturn

from gpu_sandbox.accelerator.cpu import Cpu
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.worker_messages import Request
from gpu_sandbox.worker.backends.backend import Backend

_NONE = "the host's processor has no streams and no kernels"


class CpuBackend(Cpu, Backend):
    profiles = "operators"

    def prepare(self, channel: Channel[Request]) -> None: ...

    def cold_cache(self) -> None:
        return None

    def empty_cache(self) -> None: ...

    def release_freed_memory(self) -> None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

    def pin(self, address: int, size: int) -> None: ...

    def unpin(self, address: int) -> None: ...

    def load_kernels(self, image: bytes) -> NoReturn:
        raise RuntimeError(_NONE)

    def write_behind(self, stream: int, address: int, number: int) -> NoReturn:
        raise RuntimeError(_NONE)

    def current_stream(self) -> NoReturn:
        raise RuntimeError(_NONE)

    def return_to(self, stream: Any) -> NoReturn:
        raise RuntimeError(_NONE)

    def profiler_options(self) -> dict[str, Any]:
        return {}

    def times_of(self, seen: Any) -> dict[str, list[int]]:
        """Times of operators without those that they call."""
        times: dict[str, list[int]] = defaultdict(list)
        for event in seen.function_events:
            times[event.name].append(max(0, round(event.self_cpu_time_total * 1e3)))
        return times
