"""Worker on NVIDIA's devices."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch._C._autograd import DeviceType

from gpu_sandbox.accelerator.cuda import Cuda
from gpu_sandbox.cuda.gate_kernels import Kernels, stream_write
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.worker_messages import Done, MakeContext, Request
from gpu_sandbox.worker.backends.backend import Backend
from gpu_sandbox.worker.backends.cuda_cold_cache import CudaColdCache


class CudaBackend(Cuda, Backend):
    profiles = "kernels"

    def prepare(self, channel: Channel[Request]) -> None:
        """Start the driver; then, when asked to, make the context."""
        self.start_driver()
        channel.send(Done())
        if not isinstance(channel.receive(), MakeContext):
            raise SystemExit("a request before there is a context")
        self.make_context()
        torch.zeros(1, device=self.device)  # a kernel, too
        channel.send(Done())

    def cold_cache(self) -> CudaColdCache:
        return CudaColdCache(self.device)

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def release_freed_memory(self) -> None:
        torch.cuda.empty_cache()

    def pin(self, address: int, size: int) -> None:
        cudart: Any = torch.cuda.cudart
        if int(cudart().cudaHostRegister(address, size, 0)):
            raise RuntimeError("host memory could not be pinned")

    def unpin(self, address: int) -> None:
        cudart: Any = torch.cuda.cudart
        cudart().cudaHostUnregister(address)

    def load_kernels(self, image: bytes) -> Kernels:
        return Kernels(image)

    def write_behind(self, stream: int, address: int, number: int) -> None:
        stream_write(stream, address, number)

    def current_stream(self) -> Any:
        return torch.cuda.current_stream(self.device)

    def return_to(self, stream: Any) -> None:
        current = torch.cuda.current_stream(self.device)
        if current.cuda_stream != stream.cuda_stream:
            stream.wait_stream(current)
            torch.cuda.set_stream(stream)

    def profiler_options(self) -> dict[str, Any]:
        return {"use_cpu": False, "use_device": "cuda"}

    def times_of(self, seen: Any) -> dict[str, list[int]]:
        times: dict[str, list[int]] = defaultdict(list)
        for event in seen.kineto_results.events():
            if event.device_type() == DeviceType.CUDA:
                times[event.name()].append(event.duration_ns())
        return times
