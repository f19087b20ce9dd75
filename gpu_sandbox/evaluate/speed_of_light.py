"""Lower bounds of a call's time: bytes over bandwidth, operations over their rate. Pure.

Only outputs beyond the caches surely have to be written, at no more than the data sheet's rate: a
time below that is refused. Inputs may not be needed, and operations may be saved: a time below
those bounds gets a label. Probed rates get a margin. A bound above the reference's time is none.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from events.observations import Ceilings
from events.outcomes import Correct, Refused
from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.evaluate.labels import labelled

_BY_SHEET, _BY_PROBE = 0.9, 0.75  # shares of a floor below which a time is below it
MAX_ABOVE_CEILING = 0.05  # relative; a rate that is further above a probed ceiling beats it


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Of a device: size of all caches, memory bandwidth by the data sheet, and what a probe
    reached. None: not known."""

    cache_bytes: int | None = None
    sheet_bytes_per_s: float | None = None
    probed: Ceilings | None = None


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Of one call of the reference: bytes of inputs, and of outputs that are no views; counted
    operations, and which of the probe's rates applies."""

    input_bytes: int
    output_bytes: int
    flops: int = 0
    rate: str = ""


class _Floor(NamedTuple):
    least_ms: float
    share: float
    reason: str


def rate_of(dtype: str, precision: Precision, *, has_tf32: bool) -> str:
    """The fastest rate that operations may honestly reach. For float32 that is TF32's, where
    there is one, since cuDNN's convolutions use it."""
    if dtype != "float32":
        return dtype
    if precision == "bf16":
        return "bfloat16"
    return "tf32" if has_tf32 else dtype


def beaten(outcome: Correct, load: Load, reach: Reach) -> bool:
    """Whether candidate or reference was faster than the probe, by more than noise: then the
    probe met a busy machine, or the candidate takes a shortcut."""
    slowest_ms = min(outcome.ratio_high, 1.0) * outcome.baseline_ms
    if reach.probed is None or slowest_ms <= 0:
        return False
    rates = [(load.flops, reach.probed.flops_per_s.get(load.rate))]
    if reach.cache_bytes is not None:
        moved = load.input_bytes + load.output_bytes - reach.cache_bytes
        rates.append((moved, reach.probed.bytes_per_s))
    seconds = slowest_ms / 1e3
    return any(top and done / seconds > (1 + MAX_ABOVE_CEILING) * top for done, top in rates)


def weighed(outcome: Correct, load: Load, reach: Reach) -> tuple[Correct | Refused, list[str]]:
    """The outcome and its notes: labelled if it is below a floor, refused if it can't be true."""
    time_ms, reference_ms = outcome.ratio * outcome.baseline_ms, outcome.baseline_ms
    certain = _writing(load, reach)
    if certain is not None and _below(time_ms, reference_ms, certain):
        reason = (
            f"correct, but {outcome.speedup:.2f}x is below the memory-bandwidth bound:"
            f" {time_ms:.4g} ms a call can't be: {certain.reason}"
        )
        return Refused(reason=reason), []
    floors = [f for f in (_moving(load, reach), _computing(load, reach)) if f is not None]
    floors = [floor for floor in floors if _below(time_ms, reference_ms, floor)]
    if not floors:
        return outcome, []
    reason = max(floors).reason
    return labelled(outcome, {"below-floor": f"{time_ms:.4g} ms a call, where {reason}"})


def _below(time_ms: float, reference_ms: float, floor: _Floor) -> bool:
    return time_ms < floor.share * floor.least_ms and floor.least_ms <= reference_ms


def _writing(load: Load, reach: Reach) -> _Floor | None:
    if reach.cache_bytes is None or reach.sheet_bytes_per_s is None:
        return None
    return _passing("its outputs", load.output_bytes, reach.cache_bytes, reach)


def _moving(load: Load, reach: Reach) -> _Floor | None:
    if reach.cache_bytes is None:
        return None
    moved = load.input_bytes + load.output_bytes
    return _passing("inputs and outputs", moved, reach.cache_bytes, reach)


def _passing(what: str, size: int, cache_bytes: int, reach: Reach) -> _Floor | None:
    """``size`` bytes once through memory, but for as much as caches may hold."""
    sheet, probed = reach.sheet_bytes_per_s, reach.probed
    rate = max(sheet or 0.0, probed.bytes_per_s if probed else 0.0)
    if not rate or size <= cache_bytes:
        return None
    least_ms = 1e3 * (size - cache_bytes) / rate
    return _Floor(
        least_ms,
        _BY_PROBE if sheet is None else _BY_SHEET,
        f"{size / 1e6:.4g} MB of {what}, of which caches hold {cache_bytes / 1e6:.4g} MB, take"
        f" {least_ms:.4g} ms at {rate / 1e9:.4g} GB/s",
    )


def _computing(load: Load, reach: Reach) -> _Floor | None:
    rate = reach.probed.flops_per_s.get(load.rate) if reach.probed else None
    if not rate or not load.flops:
        return None
    least_ms = 1e3 * load.flops / rate
    return _Floor(
        least_ms,
        _BY_PROBE,
        f"the reference's {load.flops / 1e9:.4g} GFLOP take {least_ms:.4g} ms at"
        f" {rate / 1e12:.4g} TFLOP/s ({load.rate}), the most that was seen here",
    )
