"""Cold cache on CUDA: overwritten L2, a cover, and random places in the stream of commands."""

from __future__ import annotations

import secrets
from typing import Any

import torch

from gpu_sandbox.tensors.gate_layout import LaunchesKernels
from gpu_sandbox.worker.backends.backend import EventPair

_KERNELS = (("overwrite", 1056), ("let_go", 264))
"""With groups of threads: eight and two for each multiprocessor of an H100, the fastest."""
_MAX_MOVES = 4
_WORD, _MAX_BYTES = 4, 240  # so small that a copy is a part of the command
_ZEROS = torch.zeros(_MAX_BYTES, dtype=torch.uint8)
_CYCLES_PER_US = 2000  # at about the fastest clock: a slower one makes covers longer
_device_sleep: Any = torch.cuda._sleep


class CudaColdCache:
    """``ColdCache`` of one worker's device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._number = device.index or 0
        self._scratch: torch.Tensor | None = None
        self._spot: torch.Tensor | None = None
        self._element: torch.Tensor | None = None

    def events(
        self, flush_bytes: int, cover_us: int, kernels: LaunchesKernels | None = None
    ) -> EventPair:
        event: Any = torch.cuda.Event
        self._flush(flush_bytes, kernels)
        _device_sleep(cover_us * _CYCLES_PER_US)
        return event(enable_timing=True), event(enable_timing=True)

    def mark(self, event: Any) -> None:
        # Without the device's number torch takes as long as for a launch.
        event.record(torch.cuda.current_stream(self._number))

    def _flush(self, flush_bytes: int, kernels: LaunchesKernels | None) -> None:
        """Overwrite half by kernels that evict persisting lines (``cuda/cold_cache.cu``), half
        plainly, so that the cache is as after plain writes."""
        if not flush_bytes:
            return
        if self._scratch is None or self._scratch.numel() != flush_bytes:
            self._scratch = torch.empty(flush_bytes, dtype=torch.uint8, device=self._device)
        if kernels is None:
            self._scratch.zero_()
            return
        half = flush_bytes // 2
        stream = torch.cuda.current_stream(self._number).cuda_stream
        for name, groups in _KERNELS:
            kernels.launch(name, stream, (groups, 1, 256), self._scratch.data_ptr(), half)
        self._scratch[half:].zero_()

    def touch(self) -> torch.Tensor:
        if self._element is None:
            self._element = torch.zeros(1, device=self._device)
        return self._element.add_(1)

    def move_on(self) -> None:
        """Queue a few commands without effect, of random kinds and sizes.

        What an event reads depends on a call's place in the stream of commands, which a process
        that issues commands of the same sizes would keep for life: 64.0 or 64.8 us on an H200."""
        if self._spot is None:
            self._spot = torch.zeros(_MAX_BYTES, dtype=torch.uint8, device=self._device)
        event: Any = torch.cuda.Event
        for _ in range(secrets.randbelow(_MAX_MOVES)):
            match secrets.randbelow(3):
                case 0:
                    self.mark(event(enable_timing=True))
                case 1:
                    _device_sleep(0)
                case _:
                    size = _WORD * (1 + secrets.randbelow(_MAX_BYTES // _WORD))
                    self._spot[:size].copy_(_ZEROS[:size], non_blocking=True)
