"""Device times of baseline and candidate by CUPTI, without the sandbox: ``honest_scores --truth``.

Each call finds the same state: inputs copied a moment ago into other memory than the call before
had, caches overwritten, and a wait on the device that hides the launches. The wait is the first
marker, a short wait behind the call the second; ``honest_figures.call_ns`` reads what lies
between. Baseline and candidate alternate which goes first.

Tracing slows what it traces, kernels of a CUDA graph by a microsecond each. So the same calls are
read by events as well, untraced, in this process: where that is less, it counts. Events are never
short of the truth: what they read beyond a kernel's device time is taken off by a kernel of which
CUPTI knows it.
"""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler import profile

from benchmarks.honest_figures import Activity, call_ns, quantile, true_speedup

__all__ = ["build", "measure"]

SETS, PLACES = 3, 4  # of inputs; coprime, so that values and memory do not go together
WARMUP_CALLS = 10
COVER_US, MAX_COVER_US = 1000.0, 5000.0
CYCLES_PER_US = 2000  # of an H200 at its highest clock; at lower ones waits are longer
MARK_CYCLES = 2000
KERNEL_US = 1.1  # of a kernel on one element, by CUPTI (event_readings)
NEAR, NEAR_HALF = 1e-3, 2e-2  # relative L2, to see that the two compute the same
_device_sleep: Callable[[int], None] = torch.cuda._sleep


def build(folder: Path) -> None:
    """Import the candidate and call it once, so that whatever it builds is built."""
    task, kernel = _module(folder, "task"), _module(folder, "kernel")
    model = _constructed(kernel.ModelNew, task)
    with torch.no_grad():
        model(*_drawn(task, 0))
    torch.cuda.synchronize()


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Times in µs, the speedup, and notes. Raises what the case raises."""
    began = time.monotonic()
    task, kernel = _module(folder, "task"), _module(folder, "kernel")
    models = [_constructed(task.Model, task), _constructed(kernel.ModelNew, task)]
    with torch.no_grad():
        calls = _Calls([_drawn(task, seed) for seed in range(SETS)])
        notes = _compared(models, calls)
        for model in models:
            for _ in range(WARMUP_CALLS):
                calls.make(model)
        calls.cover()
        events_us = _read(models, calls, rounds)  # first: what has traced once may stay slower
        times, host_us = _timed(models, calls, rounds)
    if max(host_us) > calls.cover_us:
        notes.append(
            f"launches take the host {max(host_us):.0f} µs, the cover {calls.cover_us:.0f}"
        )
    eager, candidate = ([ns / 1e3 for ns in side] for side in times)
    cupti_us = quantile(eager, 0.5), quantile(candidate, 0.5)
    true_us = [min(both) for both in zip(cupti_us, events_us, strict=True)]
    slowed = [us for us in true_us if us not in cupti_us]
    if slowed:
        notes.append("events read less than CUPTI, which slows what it traces")
    return {
        "eager_us": true_us[0],
        "candidate_us": true_us[1],
        "speedup": true_us[0] / true_us[1] if slowed else true_speedup(eager, candidate),
        "rounds": rounds,
        "host_us": host_us,
        "cupti_us": cupti_us,
        "events_us": events_us,
        "times_us": {"eager": eager, "candidate": candidate},
        "notes": notes,
        "seconds": time.monotonic() - began,
    }


def _module(folder: Path, stem: str) -> ModuleType:
    path = folder / f"{stem}.py"
    spec = importlib.util.spec_from_file_location(f"honest_{folder.name}_{stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _constructed(make: Callable[..., torch.nn.Module], task: ModuleType) -> torch.nn.Module:
    """On the CPU, then moved, as the sandbox does it."""
    torch.manual_seed(7)
    with torch.no_grad():
        return make(*task.get_init_inputs()).to("cuda")


def _drawn(task: ModuleType, seed: int) -> list[Any]:
    torch.manual_seed(100 + seed)
    with torch.device("cuda"):
        drawn: list[Any] = task.get_inputs()
    return [value.cuda() if isinstance(value, torch.Tensor) else value for value in drawn]


class _Calls:
    """Calls on inputs that are renewed, from caches that are overwritten."""

    def __init__(self, sets: Sequence[list[Any]]) -> None:
        self._sets = itertools.cycle(sets)
        self._places = itertools.cycle([_like(sets[0]) for _ in range(PLACES)])
        l2_bytes: int = torch.cuda.get_device_properties(0).L2_cache_size
        self._scratch = torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda")
        self._fills = itertools.cycle(range(256))
        self.cover_us = COVER_US
        self.host_us: list[float] = []

    def cover(self) -> None:
        """Fit to the launches that were seen; forget these."""
        usual = quantile(self.host_us, 0.75)
        self.cover_us = min(max(COVER_US, 4 * usual), MAX_COVER_US)
        self.host_us.clear()

    def put(self) -> list[Any]:
        values, place = next(self._sets), next(self._places)
        for to, value in zip(place, values, strict=True):
            if isinstance(to, torch.Tensor):
                to.copy_(value)
        return place

    def make(self, model: Callable[..., Any], events: tuple[Any, Any] | None = None) -> float:
        """One call between two markers; the microseconds that the host took for it."""
        inputs = self.put()
        self._scratch.fill_(next(self._fills))
        _device_sleep(int(self.cover_us * CYCLES_PER_US))
        if events:
            events[0].record()
        began = time.perf_counter()
        out = model(*inputs)
        took_us = (time.perf_counter() - began) * 1e6
        if events:
            events[1].record()
        _device_sleep(MARK_CYCLES)
        torch.cuda.synchronize()
        del out
        self.host_us.append(took_us)
        return took_us


def _like(values: Sequence[Any]) -> list[Any]:
    return [torch.empty_like(v) if isinstance(v, torch.Tensor) else v for v in values]


def _compared(models: Sequence[torch.nn.Module], calls: _Calls) -> list[str]:
    """How far the two differ, on one set of inputs in two places; a note if that is too much."""
    values = calls.put()
    kept = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
    expected, found = (_tensors(model(*x)) for model, x in zip(models, (values, kept), strict=True))
    if len(expected) != len(found):
        return [f"outputs differ: {len(found)} tensors, expected {len(expected)}"]
    for number, (one, two) in enumerate(zip(expected, found, strict=True)):
        if one.shape != two.shape or one.dtype != two.dtype:
            return [f"output {number} is {two.dtype} {list(two.shape)}, expected"
                    f" {one.dtype} {list(one.shape)}"]  # fmt: skip
        near = NEAR if one.dtype == torch.float32 else NEAR_HALF
        error = float((one.double() - two.double()).norm() / one.double().norm())
        if not error <= near:
            return [f"output {number} differs by {error:.1e} in relative L2, allowed {near:.0e}"]
    return []


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in _tensors(part)]
    return []


def _timed(
    models: Sequence[torch.nn.Module], calls: _Calls, rounds: int
) -> tuple[list[list[int]], list[float]]:
    """Nanoseconds of the device by side, and the host's median microseconds of each."""
    order: list[int] = []
    host: tuple[list[float], list[float]] = ([], [])
    torch.cuda.synchronize()
    with profile(use_kineto=True, use_cpu=False, use_device="cuda") as seen:
        for number in range(rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                order.append(side)
                host[side].append(calls.make(models[side]))
    found = call_ns(_activities(seen), len(order))
    sides = [[ns for ns, side in zip(found, order, strict=True) if side == s] for s in (0, 1)]
    return sides, [quantile(each, 0.5) for each in host]


def _read(models: Sequence[torch.nn.Module], calls: _Calls, rounds: int) -> tuple[float, float]:
    """Microseconds between two events around a call that nobody traces, of each side: the median,
    without what they read beyond the kernel of a call on one element."""
    event: Any = torch.cuda.Event
    element = torch.zeros(1, device="cuda")
    sides: list[Callable[..., Any]] = [*models, lambda *_: element.add_(1)]
    marks = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(3 * rounds)]
    for number, each in enumerate(marks):
        calls.make(sides[number % 3], each)
    read = [start.elapsed_time(end) * 1e3 for start, end in marks]
    eager, candidate, nothing = (quantile(read[side::3], 0.5) for side in range(3))
    return eager - nothing + KERNEL_US, candidate - nothing + KERNEL_US


def _activities(seen: Any) -> list[Activity]:
    return [
        Activity(event.name(), event.start_ns(), event.duration_ns(), _kind(event))
        for event in seen.kineto_results.events()
        if event.device_type() == DeviceType.CUDA
    ]


def _kind(event: Any) -> str:
    """Older versions of torch do not say; then all that the device did counts."""
    return str(event.activity_type()) if hasattr(event, "activity_type") else ""
