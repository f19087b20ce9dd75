"""Timed calls, the same code on both sides: the baseline's in the verifier, the
candidate's in the worker. CPU: monotonic clock around a batch of calls. CUDA: one pair
of events per call, the L2 cache overwritten before each, one synchronize at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["Clocked"]

_now = time.perf_counter_ns


class Clocked:
    """A model with its input sets. Keeps the last output for whoever wants to check it."""

    def __init__(self, model: Callable[..., Any], device: torch.device) -> None:
        self._model = model
        self._device = device
        self._scratch: torch.Tensor | None = None
        self.slots: dict[int, Any] = {}
        self.output: Any = None

    def run(self, slot: int, seed: int) -> Any:
        """One forward under its own seed, so that dropout draws the same on both sides."""
        torch.manual_seed(seed)
        with torch.no_grad():
            self.output = self._model(*self.slots[slot])
        self._synchronize()
        return self.output

    def warm(self, calls: int, seconds: float) -> None:
        """At least so many calls, and at least so long."""
        began = _now()
        done = 0
        with torch.no_grad():
            while done < calls or (_now() - began) < seconds * 1e9:
                self._model(*self.slots[done % len(self.slots)])
                self._synchronize()
                done += 1

    def batch(self, calls: int, first_slot: int, flush_bytes: int, seed: int) -> int:
        """Nanoseconds that ``calls`` forwards took, over the slots in turn."""
        torch.manual_seed(seed)
        order = [self.slots[(first_slot + i) % len(self.slots)] for i in range(calls)]
        self.output = None
        with torch.no_grad():
            if self._device.type == "cpu":
                return self._batch_cpu(order)
            return self._batch_cuda(order, flush_bytes)

    def _batch_cpu(self, order: list[Any]) -> int:
        model = self._model
        output = None
        began = _now()
        for arguments in order:
            output = model(*arguments)
        elapsed = _now() - began
        self.output = output
        return elapsed

    def _batch_cuda(self, order: list[Any], flush_bytes: int) -> int:
        model = self._model
        output = None
        event: Any = torch.cuda.Event
        events = []
        for arguments in order:
            self._flush(flush_bytes)
            start, end = event(enable_timing=True), event(enable_timing=True)
            start.record()
            output = model(*arguments)
            end.record()
            events.append((start, end))
        torch.cuda.synchronize(self._device)
        self.output = output
        return int(sum(start.elapsed_time(end) for start, end in events) * 1e6)

    def _flush(self, flush_bytes: int) -> None:
        if not flush_bytes:
            return
        if self._scratch is None or self._scratch.numel() != flush_bytes:
            self._scratch = torch.empty(flush_bytes, dtype=torch.uint8, device=self._device)
        self._scratch.zero_()

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
