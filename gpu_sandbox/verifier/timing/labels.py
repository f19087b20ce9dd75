"""What the way that it was timed tells a figure's reader. Pure."""

from __future__ import annotations

from events.outcomes import Label
from gpu_sandbox.api.statistics import Estimate

__all__ = ["RESOLUTION_NS", "labels_on_cpu", "timing_labels"]

RESOLUTION_NS = 300.0
"""Of CUDA events: waiting longer does not tell kernels of a few microseconds apart."""
_WORTH_SAYING = 0.01
"""What a figure is read to: an interval that is narrower misleads nobody."""


_UNCHECKED = 0.05
_LEFT_OUT_NS = 75_000.0
"""What a worker gains by answering from native code, of a release of the CPU: 65 us were seen."""


def labels_on_cpu(blur_ns: float, output_ns: float, each_ns: float) -> dict[Label, str]:
    """``blur_ns``: what the outer clock may be off by. No claim is held against it more closely,
    nor against what no worker can do without; ``output_ns`` of that grows with what is returned.
    ``each_ns``: a call of the faster side."""
    blur = (blur_ns + _LEFT_OUT_NS + output_ns) / each_ns
    if blur < _UNCHECKED:
        return {}
    why = "its calls are short beside what is around them: no claim is checked closer than"
    return {"below-resolution": f"{why} {blur:.0%}"}


def timing_labels(found: Estimate, each_ns: float, undecided: str) -> dict[Label, str]:
    """Label → reason, on a GPU. ``each_ns`` is what a call of the faster side takes;
    ``undecided`` says why no gate decided, if none did and one was needed.

    The resolution is to blame for a wide interval where that is, in time, narrower than what
    the clock tells apart; a wider one is noise, which more patience may have made narrower.
    """
    labels: dict[Label, str] = {}
    if found.half_width >= _WORTH_SAYING and found.half_width * each_ns < RESOLUTION_NS:
        labels["below-resolution"] = (
            f"of calls of {each_ns / 1e3:.3g} us, readings tell the ratio to within"
            f" {found.half_width:.1%} only"
        )
    if undecided:
        labels["not-gated"] = f"no gate has checked its time: {undecided}"
    return labels
