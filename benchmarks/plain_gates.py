"""What releases differ by behind a gate that encrypts nothing: inputs are copied in as it opens.

    python -m benchmarks.plain_gates [--releases 150] [--json FILE]

Two processes share a GPU, as verifier and worker do. The worker queues its calls behind a value in
host memory. When all are queued the verifier's clock starts, it copies the inputs to where the
worker reads them, writes the value, waits until the worker's device has written another, and copies
the outputs back: each change of process is on the clock. A row for each number of calls and bytes:
the median wall in microseconds, and its noise, from the least to the median and between the
quartiles, with calls and without any. Encrypted gates have their ``noise_ns`` (``passages.py``).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as processes

from gpu_sandbox.paired import quantile

_SHAPES = ((8, 1 << 18), (36, 1 << 18), (8, 1 << 22))
"""Calls of a release, and floats of each."""
_AT_LEAST = 0


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


class Counters:
    """Three numbers in memory that both processes, and the device, see."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, 4096)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.opened, self.done, self.queued = (
            ctypes.c_uint32.from_address(self.address + 64 * k) for k in range(3)
        )
        cudart: Any = torch.cuda.cudart
        cudart().cudaHostRegister(self.address, 4096, 0)

    def wait_on_device(self, stream: int, value: int) -> None:
        at = ctypes.c_uint64(self.address)
        _driver().cuStreamWaitValue32_v2(ctypes.c_void_p(stream), at, value, _AT_LEAST)

    def write_on_device(self, stream: int, value: int) -> None:
        at = ctypes.c_uint64(self.address + 64)
        _driver().cuStreamWriteValue32_v2(ctypes.c_void_p(stream), at, value, 0)


def _worker(fd: int, pipe: Any) -> None:
    torch.zeros(1, device="cuda")
    counters = Counters(fd)
    torch.sin(torch.zeros(8, device="cuda"))  # its code is loaded now, not behind the gate
    torch.cuda.synchronize()
    while (told := pipe.recv()) is not None:
        inputs, outputs, releases, first, calls = told
        for number in range(first, first + releases):
            pipe.recv()
            stream = torch.cuda.current_stream().cuda_stream
            counters.wait_on_device(stream, number)
            for k in range(calls):
                torch.sin(inputs[k], out=outputs[k])
            counters.write_on_device(stream, number)
            counters.queued.value = number
            torch.cuda.synchronize()
        pipe.send("done")
        del inputs, outputs


def _walls(pipe: Any, counters: Counters, room: int, floats: int, calls: int,
           releases: int, first: int) -> list[float]:  # fmt: skip
    inputs = torch.empty(room, floats, device="cuda")
    outputs = torch.empty_like(inputs)
    pipe.send((inputs, outputs, releases, first, calls))
    walls = []
    for number in range(first, first + releases):
        drawn = torch.randn(room, floats, device="cuda")
        torch.cuda.synchronize()
        pipe.send("go")
        while counters.queued.value < number:
            pass
        began = time.perf_counter_ns()
        inputs.copy_(drawn)
        torch.cuda.synchronize()
        counters.opened.value = number
        while counters.done.value < number:
            pass
        outputs.clone()
        torch.cuda.synchronize()
        walls.append((time.perf_counter_ns() - began) / 1e3)
    pipe.recv()
    return walls[releases // 10 :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=150)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    fd = os.memfd_create("counters")
    os.ftruncate(fd, 4096)
    os.set_inheritable(fd, True)
    context = processes.get_context("fork")
    pipe, theirs = context.Pipe()
    worker = context.Process(target=_worker, args=(fd, theirs), daemon=True)
    worker.start()  # before there is a context here
    torch.zeros(1, device="cuda")
    counters, first, found = Counters(fd), 1, []
    print("calls  floats     with calls   without")
    for calls, floats in _SHAPES:
        row = []
        for called in (calls, 0):
            walls = _walls(pipe, counters, calls, floats, called, arguments.releases, first)
            first += arguments.releases
            noise = quantile(walls, 0.5) - min(walls), quantile(walls, 0.75) - quantile(walls, 0.25)
            row.append((quantile(walls, 0.5), *noise))
        found.append((calls, floats, row))
        told = "   ".join(f"{wall:8.0f} ±{least:6.1f} {middle:6.1f}" for wall, least, middle in row)
        print(f"{calls:5} {floats:8}  {told}", flush=True)
    pipe.send(None)
    if arguments.json:
        arguments.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
