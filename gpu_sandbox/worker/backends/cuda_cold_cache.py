"""What lies before and between calls that a GPU's events time: a cold cache, other work, and places
in the stream of commands that nobody keeps."""

from __future__ import annotations

import secrets
from typing import Any

import torch

from gpu_sandbox.tensors.gate_layout import LaunchesKernels
from gpu_sandbox.worker.backends.backend import EventPair

_KERNELS = (("overwrite", 1056), ("let_go", 264))
"""With groups of threads: eight and two for each multiprocessor of an H100, as fast as it gets."""
_MOST_MOVES = 4
_WORD, _MOST_BYTES = 4, 240
_ZEROS = torch.zeros(_MOST_BYTES, dtype=torch.uint8)
"""So small that their copy is a part of the command."""
_CYCLES_PER_US = 2000
"""Of about the fastest clock: at a slower one the cover is longer, which does no harm."""
_device_sleep: Any = torch.cuda._sleep


class CudaColdCache:
    """Of one worker's device. Nothing is waited for."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._number = device.index or 0
        self._scratch: torch.Tensor | None = None
        self._spot: torch.Tensor | None = None
        self._element: torch.Tensor | None = None

    def events(
        self, flush_bytes: int, cover_us: int, kernels: LaunchesKernels | None = None
    ) -> EventPair:
        """For a call on a cache that holds other things, behind work that lasts so long. Without
        ``kernels`` it holds what it was told to keep, too."""
        event: Any = torch.cuda.Event
        self._flush(flush_bytes, kernels)
        _device_sleep(cover_us * _CYCLES_PER_US)
        return event(enable_timing=True), event(enable_timing=True)

    def mark(self, event: Any) -> None:
        """Now, in the stream that is current. To be asked for that of no device in particular takes
        torch as long as a launch."""
        event.record(torch.cuda.current_stream(self._number))

    def _flush(self, flush_bytes: int, kernels: LaunchesKernels | None) -> None:
        """With half of it no line stays because a program has said that it should
        (``cuda/cold_cache.cu``); the other half is written plainly, so that the cache is as if all
        had been."""
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
        """A kernel on one element, which is returned: of what events read there nearly all is not
        the kernel's."""
        if self._element is None:
            self._element = torch.zeros(1, device=self._device)
        return self._element.add_(1)

    def move_on(self) -> None:
        """A few commands that do nothing, of random kinds and sizes: the next call lies elsewhere
        in the stream of commands than it would.

        What an event reads depends on that place, probably by how often the device has to
        fetch commands between it and the kernel, and who issues commands of the same sizes again
        and again keeps the place for as long as the process lives. On an H200 a 64 us kernel took
        a process either 64.0 or 64.8 us, wherever its memory lay; with readings alone in
        between, which are all of one size, 7 of 12 to 15 of 16 ratios to itself were within 1 %;
        with these all of 18 within 0.5 %.
        """
        if self._spot is None:
            self._spot = torch.zeros(_MOST_BYTES, dtype=torch.uint8, device=self._device)
        event: Any = torch.cuda.Event
        for _ in range(secrets.randbelow(_MOST_MOVES)):
            match secrets.randbelow(3):
                case 0:
                    self.mark(event(enable_timing=True))
                case 1:
                    _device_sleep(0)
                case _:
                    size = _WORD * (1 + secrets.randbelow(_MOST_BYTES // _WORD))
                    self._spot[:size].copy_(_ZEROS[:size], non_blocking=True)
