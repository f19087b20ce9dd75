"""NVIDIA's devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator, SharedMemory
from gpu_sandbox.accelerator.cuda_vmm import DeviceMemory
from gpu_sandbox.confine import seccomp_filter


class Cuda(Accelerator):
    on_host = False
    has_tf32 = True

    def start_driver(self) -> None:
        with _one_line_errors():
            torch.cuda.init()  # type: ignore[no-untyped-call]

    def make_context(self) -> None:
        with _one_line_errors():
            torch.empty(1, device=self.device)  # no kernel: a profiler would count it
            torch.cuda.synchronize(self.device)
        seccomp_filter.give_up_driver_sockets()

    def limit_memory(self, share: float) -> None:
        torch.cuda.set_per_process_memory_fraction(share, self.device)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.device)

    def seed(self, seed: int) -> None:
        torch.cuda.default_generators[self.device.index or 0].manual_seed(seed)

    def is_capturing(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def share(self, total_bytes: int) -> tuple[SharedMemory, int]:
        owner = DeviceMemory.create(total_bytes, self.device)
        return owner, owner.export()

    def open_shared(self, fd: int, total_bytes: int) -> SharedMemory:
        return DeviceMemory.open(fd, total_bytes, self.device)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """``SystemExit`` with the first line of torch's error."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise SystemExit(f"{type(error).__name__}: {reason}") from None
