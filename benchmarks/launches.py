"""What a chain of sixteen short kernels reads: by process, by where its code lies, by stream,
and as a graph. So: what it is that processes differ by (see ``placement.py`` for memory).

    python -m benchmarks.launches [--device cuda:0] [--processes 5] [--json FILE]

Needs nvcc. Each chain is timed as a candidate is, alone on the device; every column is a process,
in microseconds of a call: the least and the most of three medians.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import placement

_SOURCE = """
extern "C" __global__ void padding(float *x) {
  float v = x[threadIdx.x];
  #pragma unroll
  for (int k = 0; k < PADDING; k++) { v = v * 1.0001f + k; v = v * v + 0.3f * k; }
  x[threadIdx.x] = v;
}
extern "C" __global__ void sine(const float4 *x, float4 *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = x[i];
  v.x = sinf(v.x); v.y = sinf(v.y); v.z = sinf(v.z); v.w = sinf(v.w);
  y[i] = v;
}
extern "C" __global__ void nothing(const float4 *x, float4 *y) {}
"""
_PADDINGS = (0, 40, 700)
"""Of code before the kernels, so that they lie elsewhere within a module, too."""
_LENGTH, _SHAPE, _THREADS = 16, (512, 1024), 128
_COPIES, _STREAMS, _GRAPHS, _ROUNDS = 6, 4, 4, 3
_MOST_BETWEEN = 40 << 20


def _built(folder: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    for padding in _PADDINGS:
        source, cubin = folder / f"{padding}.cu", folder / f"{padding}.cubin"
        source.write_text(_SOURCE)
        target = [f"-arch=sm_{major}{minor}", f"-DPADDING={padding}"]
        subprocess.run(["nvcc", "-cubin", *target, "-o", cubin, source], check=True)


class Code:
    """The kernels, loaded once more, to where the driver puts them."""

    def __init__(self, image: bytes) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._module = ctypes.c_void_p()
        self._done(self._driver.cuModuleLoadData(ctypes.byref(self._module), image))

    def chain(
        self, name: str, blocks: int, between: tuple[torch.Tensor, torch.Tensor]
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        kernel = ctypes.c_void_p()
        found = self._driver.cuModuleGetFunction(ctypes.byref(kernel), self._module, name.encode())
        self._done(found)

        def forward(x: torch.Tensor) -> torch.Tensor:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            source = x
            for number in range(_LENGTH):
                target = between[number % 2]
                self._launch(kernel, blocks, stream, source, target)
                source = target
            return source

        return forward

    def _launch(
        self, kernel: Any, blocks: int, stream: Any, source: torch.Tensor, target: torch.Tensor
    ) -> None:
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (source, target)]
        given = (ctypes.c_void_p * 2)(*(ctypes.addressof(pointer) for pointer in pointers))
        grid, block = (blocks, 1, 1), (_THREADS, 1, 1)
        self._done(self._driver.cuLaunchKernel(kernel, *grid, *block, 0, stream, given, None))

    @staticmethod
    def _done(result: int) -> None:
        if result:
            raise SystemExit(f"the driver says {result}")


def _graph(device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    x, graph = torch.rand(_SHAPE, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = placement.chain(_LENGTH)(x)

    def replay(_: torch.Tensor) -> torch.Tensor:
        graph.replay()
        return y

    return replay


def _measured(device: torch.device, folder: Path) -> dict[str, list[float]]:
    torch.zeros(1, device=device)  # the context that the driver's calls are for
    images = [(folder / f"{padding}.cubin").read_bytes() for padding in _PADDINGS]
    between = (torch.empty(_SHAPE, device=device), torch.empty(_SHAPE, device=device))
    blocks = {"sine": between[0].numel() // 4 // _THREADS, "nothing": 1}
    modules = {"eager sin": placement.Module(placement.chain(_LENGTH), _SHAPE, device)}
    others = []
    for copy in range(_COPIES):
        code = Code(images[copy % len(images)])
        others.append(torch.empty(random.randrange(_MOST_BETWEEN), dtype=torch.uint8).to(device))
        for name, grid in blocks.items():
            forward = code.chain(name, grid, between)
            modules[f"{name}, code {copy}"] = placement.Module(forward, _SHAPE, device)
    modules["matmul 1024"] = placement.Module(placement.product, (1024, 1024), device)
    found: dict[str, list[float]] = {}
    for _ in range(_ROUNDS):
        for name, module in modules.items():
            found.setdefault(name, []).append(module.us())
    stream_on: Any = torch.cuda.Stream
    streams = [stream_on(device) for _ in range(_STREAMS)]
    torch.cuda.synchronize()
    for _ in range(_ROUNDS):
        for name in ("eager sin", "nothing, code 0", "matmul 1024"):
            for number, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    found.setdefault(f"{name}, stream {number}", []).append(modules[name].us())
    graphs = [placement.Module(_graph(device), _SHAPE, device) for _ in range(_GRAPHS)]
    for _ in range(_ROUNDS):
        for number, module in enumerate(graphs):
            found.setdefault(f"eager sin, graph {number}", []).append(module.us())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        with torch.no_grad():
            print(json.dumps(_measured(torch.device(chosen.device), chosen.one)))
        return
    everything = []
    with tempfile.TemporaryDirectory() as folder:
        _built(Path(folder))
        for number in range(chosen.processes):
            command = [sys.executable, "-m", "benchmarks.launches", "--device", chosen.device]
            told = subprocess.run([*command, "--one", folder], stdout=subprocess.PIPE, check=True)
            everything.append(json.loads(told.stdout))
            print(f"process {number + 1} of {chosen.processes}", file=sys.stderr, flush=True)
    for name in everything[0]:
        row = "".join(f"{min(p[name]):8.2f} to {max(p[name]):6.2f}" for p in everything)
        print(f"{name:24}{row}")
    if chosen.json:
        chosen.json.write_text(json.dumps(everything))


if __name__ == "__main__":
    main()
