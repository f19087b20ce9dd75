"""What the same calls read, by process and by where memory lies: how much of a ratio that is.

    python -m benchmarks.placement [--device cuda:0] [--processes 4] [--json FILE]

Every row is one process. In it each module is timed as a candidate is, alone on the device, in
releases of 16 calls: as it comes; with other memory taken in between, so that what the module
allocates lies elsewhere; with torch's cache emptied; and with inputs and outputs elsewhere. Told is
the median of a call in microseconds, and the least and the most of several such.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.api.statistics import quantile
from gpu_sandbox.cuda.gate_kernels import Kernels
from gpu_sandbox.cuda.nvrtc import compiled
from gpu_sandbox.ipc.worker_messages import Place, Time, Timed
from gpu_sandbox.tensors.pytree import pack
from gpu_sandbox.tensors.shared_arena import Arena, lay_out
from gpu_sandbox.verifier.timing.launch_cover import HostTime, cover_us, host_time
from gpu_sandbox.worker.outputs import Slot
from gpu_sandbox.worker.timed_calls import TimedModel

_CALLS, _RELEASES, _PLACES = 16, 8, 8
_PROTOCOL_COVER_US = 60


def chain(operations: int) -> Callable[..., torch.Tensor]:
    def forward(x: torch.Tensor) -> torch.Tensor:
        for _ in range(operations):
            x = torch.sin(x)
        return x

    return forward


def _five(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * x) / (1 + x.abs())


def product(x: torch.Tensor) -> torch.Tensor:
    return x @ x


MODULES: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, int]]] = {
    "8 x sin, 2 MB": (chain(8), (512, 1024)),
    "16 x sin, 2 MB": (chain(16), (512, 1024)),
    "five operations, 1 MB": (_five, (512, 512)),
    "matmul 1024": (product, (1024, 1024)),
}


class Module:
    """One, with its inputs and outputs in an arena, as a worker has them."""

    def __init__(
        self, forward: Callable[..., torch.Tensor], shape: tuple[int, int], device: torch.device
    ) -> None:
        self._forward, self._shape, self._device = forward, shape, device
        self._flush = 2 * int(torch.cuda.get_device_properties(device).L2_cache_size)
        self._cover_us = _PROTOCOL_COVER_US
        self.move()

    def move(self) -> None:
        """Inputs and outputs to new memory."""
        x = torch.rand(self._shape, device=self._device)
        layout = lay_out([x], [x], _CALLS)
        arena = Arena.create(layout.total_bytes, self._device)
        self._clocked = TimedModel(self._forward, self._device)
        self._clocked.kernels = Kernels(compiled(self._device))
        for number, (ins, outs) in enumerate(zip(layout.inputs, layout.outputs, strict=True)):
            views = arena.views(ins)
            views[0].copy_(x)
            place = Place(slot=number, args=pack([x], [], pickling=False), inputs=ins, outputs=outs)
            self._clocked.slots[number] = Slot(views, views, arena.views(outs), arena, place)
        hosts = [_host_time(self._release()) for _ in range(3)]
        self._cover_us = cover_us(_PROTOCOL_COVER_US, host_time(hosts), self._flush)

    def us(self, cover: float = 1.0) -> float:
        """Of a call."""
        taken = [ns for _ in range(_RELEASES) for ns in self._release(cover).elapsed_ns]
        return quantile([float(ns) for ns in taken], 0.5) / 1e3

    def _release(self, cover: float = 1.0) -> Timed:
        asked = Time(
            calls=_CALLS,
            seed=1,
            flush_bytes=self._flush,
            cover_us=int(cover * self._cover_us),
            gate="none",
        )
        found = self._clocked.time(asked)
        assert isinstance(found, Timed)
        return found


def _host_time(timed: Timed) -> HostTime:
    return HostTime(timed.launch_ns, timed.loop_ns, sum(timed.elapsed_ns) / _CALLS)


def measured(name: str, device: torch.device) -> dict[str, Any]:
    module = Module(*MODULES[name], device)
    found: dict[str, Any] = {"as it comes": [module.us() for _ in range(3)]}
    found["covers twice as long"] = [module.us(2.0) for _ in range(2)]
    elsewhere = []
    for _ in range(_PLACES):
        sizes = [random.randrange(1 << 19, 12 << 20, 512) for _ in range(random.randrange(1, 4))]
        taken = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]
        elsewhere.append(module.us())
        del taken
    found["others' memory in between"] = elsewhere
    found["as it comes, again"] = [module.us() for _ in range(2)]
    emptied = []
    for _ in range(_PLACES // 2):
        torch.cuda.empty_cache()
        emptied.append(module.us())
    found["cache emptied"] = emptied
    moved = []
    for _ in range(_PLACES // 2):
        module.move()
        moved.append(module.us())
    found["inputs and outputs elsewhere"] = moved
    return found


def _told(values: list[float]) -> str:
    return f"{quantile(values, 0.5):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs="*", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        device = torch.device(chosen.device)
        with torch.no_grad():
            print(json.dumps({name: measured(name, device) for name in chosen.one}))
        return
    everything = []
    for number in range(chosen.processes):
        names = list(MODULES) if number % 2 else list(reversed(MODULES))
        command = [sys.executable, "-m", "benchmarks.placement", "--device", chosen.device]
        told = subprocess.run([*command, "--one", *names], stdout=subprocess.PIPE, check=True)
        found = json.loads(told.stdout)
        everything.append(found)
        for name in MODULES:
            for how, values in found[name].items():
                print(f"process {number}  {name:24} {how:30} {_told(values)}", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(everything))


if __name__ == "__main__":
    main()
