"""NVIDIA's devices."""

from __future__ import annotations

import torch

from gpu_sandbox.accelerator.accelerator import Accelerator, SharedMemory
from gpu_sandbox.accelerator.cuda_context import make_context, start_driver
from gpu_sandbox.accelerator.cuda_vmm import DeviceMemory


class Cuda(Accelerator):
    on_host = False
    has_tf32 = True

    def start_driver(self) -> None:
        start_driver()

    def make_context(self) -> None:
        make_context(self.device)

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
