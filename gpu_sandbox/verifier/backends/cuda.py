"""Verifier on NVIDIA's devices."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import torch

from gpu_sandbox.accelerator.cuda import Cuda
from gpu_sandbox.cuda.nvml import Nvml, nvml_of
from gpu_sandbox.cuda.nvrtc import begin_compiling
from gpu_sandbox.verifier.backends.backend import Backend
from gpu_sandbox.verifier.backends.cuda_events import CudaEvents

_QUERIED = ("driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "pstate")
_LITTLE = 1 / 64  # of the device's memory: giving back less is not worth waiting for processes
_MAX_FILLED_BYTES = 1 << 24  # longer calls are checked better by gates


class CudaBackend(Cuda, Backend):
    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._events = CudaEvents(device)

    @property
    def events(self) -> CudaEvents:
        return self._events

    def get_ready(self) -> None:
        probe = torch.zeros(1, device=self.device).add_(1).item()
        if probe != 1:
            raise RuntimeError("the device can't add one to nothing")
        begin_compiling(self.device)

    def conditions(self) -> dict[str, Any]:
        """Clocks in MHz."""
        return {
            "cuda": torch.version.cuda,
            "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
            "cudnn_tf32": torch.backends.cudnn.allow_tf32,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            **_driver_conditions(),
        }

    def driver_account(self) -> Nvml | None:
        return nvml_of(self.device)

    def least_write_ns(self, size: int) -> float:
        """By events, the shorter of a kernel and the driver's fill."""
        if not size:
            return self.events.reading_ns()
        size = min(size, _MAX_FILLED_BYTES)
        buffer = torch.empty(size, dtype=torch.uint8, device=self.device)
        read_ns = self.events.read_ns
        took = min(read_ns(lambda: buffer.fill_(1)), read_ns(buffer.zero_))
        return self._least_ns(size, took)

    # --- memory

    def free_bytes(self) -> int:
        return int(torch.cuda.mem_get_info(self.device)[0])

    def is_crowded(self) -> bool:
        free, total = torch.cuda.mem_get_info(self.device)
        return free < total / 2

    def allocated_bytes(self) -> int:
        torch.cuda.reset_peak_memory_stats(self.device)
        return int(torch.cuda.memory_allocated(self.device))

    def peak_bytes(self) -> int:
        return int(torch.cuda.max_memory_allocated(self.device))

    def is_much(self, size: int) -> bool:
        return size > self._little()

    def keep_little(self) -> None:
        if torch.cuda.memory_reserved(self.device) > self._little():
            torch.cuda.empty_cache()

    def leave_half(self) -> None:
        """Asks the driver only where it may matter: while a context is made it takes 20 ms."""
        kept = self._kept()
        if kept > self._little() and kept > torch.cuda.mem_get_info(self.device)[0]:
            torch.cuda.empty_cache()

    def _kept(self) -> int:
        """Cached bytes. From the raw account: torch sorts all of it to return one number, which
        takes 0.3 ms, a hundred times in a verdict."""
        account = torch.cuda.memory_stats_as_nested_dict(self.device)
        reserved, used = (
            account[f"{which}_bytes"]["all"]["current"] for which in ("reserved", "allocated")
        )
        return int(reserved - used)

    def _little(self) -> float:
        return _LITTLE * torch.cuda.get_device_properties(self.device).total_memory


def _driver_conditions() -> dict[str, str]:
    """By nvidia-smi, of the one visible device. Empty where there is no such tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    query = f"--query-gpu={','.join(_QUERIED)}"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    command = [tool, query, "--format=csv,noheader,nounits", f"--id={visible}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in done.stdout.split(",")]
    return dict(zip(_QUERIED, values, strict=False))
