"""Observations of a candidate beside its verdict: figures for its improvement.

Nothing here decides anything. A profile and counters come out of the candidate's own
process, which may have written any of it; work and ceilings are the trusted side's.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

__all__ = [
    "MEASURED",
    "MOST_NAME",
    "MOST_ROWS",
    "SECTIONS",
    "Ceilings",
    "Counter",
    "Counters",
    "Observations",
    "Profile",
    "ProfileRow",
    "SectionName",
    "Work",
]

SectionName: TypeAlias = Literal[
    "compiler", "execution", "error", "timing", "resources", "roofline", "profile", "counters",
]  # fmt: skip
"""What an attempt shows of itself (docs/observations.md), in this order."""
SECTIONS: tuple[SectionName, ...] = get_args(SectionName)
MEASURED: tuple[SectionName, ...] = ("roofline", "profile", "counters")
"""Those that cost time on the device: a sandbox takes them on request only."""

MOST_ROWS, MOST_NAME = 12, 200
"""Rows of a profile; characters of a name in one."""
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class _Observed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Work(_Observed, frozen=True, kw_only=True):
    """What one call of the reference does at least, as counted on its first input set.

    Bytes: every input and parameter read once, every output written once. ``flops`` are of
    the operators that torch's ``FlopCounterMode`` has a formula for (matrix products,
    convolutions, attention), two for a multiply-add; ``uncounted`` names the other operators
    that compute. ``dtype`` is that of most of these bytes.
    """

    input_bytes: int
    output_bytes: int
    parameter_bytes: int
    flops: int
    dtype: str
    uncounted: list[str] = []

    @property
    def moved_bytes(self) -> int:
        return self.input_bytes + self.output_bytes + self.parameter_bytes


class Ceilings(_Observed, frozen=True, kw_only=True):
    """What a probe reached on the device (``gpu_sandbox/probes/peak_rates_main.py``): bytes read
    and written a second, and operations a second of a matrix product by dtype."""

    bytes_per_s: float
    flops_per_s: dict[str, float]
    measured_on: str
    """The day, as in 2026-11-21."""
    measured_at: str = ""
    """The moment in UTC, as in 2026-11-21T14:03:00Z; empty in logs from before it was kept."""


class ProfileRow(_Observed, frozen=True, kw_only=True):
    """A kernel or operator: times it ran in all calls, and nanoseconds, its own alone."""

    name: Name
    count: Amount
    own_ns: Amount


class Profile(_Observed, frozen=True, kw_only=True):
    """A torch profiler run of the candidate after it was timed, on a warm cache.

    ``rows`` take most time; ``own_ns`` is the time of all kernels or operators, these and
    others, ``wall_ns`` that of the ``calls`` from outside, with the profiler at work.
    """

    what: Literal["kernels", "operators"]
    calls: Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]
    wall_ns: Amount
    own_ns: Amount
    rows: Annotated[list[ProfileRow], msgspec.Meta(max_length=MOST_ROWS)]


class Counter(_Observed, frozen=True, kw_only=True):
    """One figure of Nsight Compute; ``value`` is as it prints it."""

    name: Name
    value: Name
    unit: Name = ""


class Counters(_Observed, frozen=True, kw_only=True):
    """Of one launch of the candidate's longest kernel, in a run of its own."""

    kernel: Name
    counters: list[Counter]


class Observations(_Observed, frozen=True, kw_only=True):
    """Null or empty: not asked for, or not there to be seen.

    ``difference``: of a wrong result, where it is wrong, and how much. ``missing`` says of a
    section that was asked for why it is not there, in one line.
    """

    difference: str = ""
    work: Work | None = None
    ceilings: Ceilings | None = None
    profile: Profile | None = None
    counters: Counters | None = None
    missing: dict[SectionName, str] = {}
