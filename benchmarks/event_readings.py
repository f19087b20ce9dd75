"""What a pair of CUDA events reads beyond the device time of what lies between them.

    python -m benchmarks.event_readings [--processes 3] [--json FILE]

Device time is CUPTI's: first kernel's start to last kernel's end. Events and kernels are queued
behind a sleeping kernel, as in a timed release, on a cache that was overwritten. One row a kind of
work, one column pair a process: microseconds by CUPTI, and what the events read beyond that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import profile

from benchmarks.honest_figures import Activity, call_ns
from gpu_sandbox.api.statistics import quantile

_ROUNDS, _COVER_CYCLES, _MARK_CYCLES = 30, 600_000, 2_000
_MB = 1 << 20
_sleep: Any = torch.cuda._sleep


def _works() -> dict[str, Callable[[], object]]:
    buffers = {mb: torch.empty(int(mb * _MB), dtype=torch.uint8, device="cuda") for mb in _SIZES}
    floats = {mb: torch.rand(int(mb * _MB) // 4, device="cuda") for mb in _SIZES}
    small = torch.zeros(1, device="cuda")
    x, w = torch.rand(512, 1024, device="cuda"), torch.rand(1024, 1024, device="cuda")
    works: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "one element": lambda: small.add_(1),
        "four times one element": lambda: [small.add_(1) for _ in range(4)],
        "a short sleep": lambda: _sleep(100),
        "a product of 512x1024x1024": lambda: x @ w,
        "memset of 1 MB": buffers[1].zero_,
    }
    for mb in _SIZES:
        works[f"fill {mb:g} MB"] = lambda mb=mb: buffers[mb].fill_(1)  # type: ignore[misc]
        works[f"sin {mb:g} MB"] = lambda mb=mb: floats[mb].sin()  # type: ignore[misc]
        works[f"sum {mb:g} MB"] = lambda mb=mb: floats[mb].sum()  # type: ignore[misc]
    return works


_SIZES = (0.25, 1, 4, 16, 64)


def _read(work: Callable[[], object], scratch: torch.Tensor, *, marked: bool) -> float:
    """Microseconds between two events, on average over rounds: the median. ``marked``: with
    markers for who looks at CUPTI's records."""
    event: Any = torch.cuda.Event
    taken = []
    for _ in range(_ROUNDS):
        scratch.fill_(1)
        _sleep(_COVER_CYCLES)
        if marked:
            work()
            _sleep(_MARK_CYCLES)
            torch.cuda.synchronize()
            continue
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end) * 1e3)
    return quantile(taken, 0.5) if taken else 0.0


def _by_cupti(work: Callable[[], object], scratch: torch.Tensor) -> float:
    with profile(use_kineto=True, use_cpu=False, use_device="cuda") as seen:
        _read(work, scratch, marked=True)
    found = call_ns(list(_activities(seen)), _ROUNDS)
    return quantile([ns / 1e3 for ns in found], 0.5)


def _activities(seen: Any) -> Iterator[Activity]:
    for event in seen.kineto_results.events():
        kind = str(event.activity_type()) if hasattr(event, "activity_type") else ""
        if "CUDA" in str(event.device_type()):
            yield Activity(event.name(), event.start_ns(), event.duration_ns(), kind)


def _measured() -> dict[str, tuple[float, float]]:
    l2_bytes: int = torch.cuda.get_device_properties(0).L2_cache_size
    scratch = torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda")
    found = {}
    for name, work in _works().items():
        for _ in range(5):
            work()
        torch.cuda.synchronize()
        read = _read(work, scratch, marked=False)
        found[name] = (read, 0.0 if name in _UNSEEN else _by_cupti(work, scratch))
    return found


_UNSEEN = ("nothing", "a short sleep")
"""By CUPTI: nothing is, and a sleep is a marker."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(_measured()))
        return
    command = [sys.executable, "-m", "benchmarks.event_readings", "--one"]
    columns = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(arguments.processes)
    ]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: µs by CUPTI + beyond")
    for name in columns[0]:
        told = (f"{cupti:7.2f} +{read - cupti:5.2f}" for read, cupti in (c[name] for c in columns))
        print(f"{name:30}", "  ".join(told))
    if arguments.json:
        arguments.json.write_text(json.dumps(columns))


if __name__ == "__main__":
    main()
