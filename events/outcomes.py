"""What became of a candidate: one tagged union, closed, without infinities.

A failing kernel is an outcome, never an exception, and a failed node's score is
"it failed", never a float infinity: JSON has none, and msgspec would write ``null``.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

__all__ = [
    "BASELINE_LABELS",
    "BUSY_MACHINE",
    "LABELS",
    "BaselineKind",
    "BaselineLabel",
    "Cheated",
    "CompileFailed",
    "Correct",
    "Crashed",
    "KernelResources",
    "Label",
    "NoCandidate",
    "Outcome",
    "PoolUsage",
    "Refused",
    "ScoredBy",
    "SetScore",
    "TimedOut",
    "WrongResult",
    "is_failure",
]


BaselineKind: TypeAlias = Literal["eager", "compile", "max-autotune"]
"""What a candidate can be compared with: the reference as it is, or as compiled by
``torch.compile``, by default or with max-autotune."""

Label: TypeAlias = Literal[
    "degenerate-task", "below-floor", "below-resolution", "not-gated", "inherits-reference",
    "torch-only", "fallback", "one-place", "constant-parameters",
    "host-bound",
]  # fmt: skip
"""What a reader must know beside a speedup (docs/sandbox/verdicts.md, "Labels")."""
LABELS: tuple[Label, ...] = get_args(Label)
BaselineLabel: TypeAlias = Literal["busy-machine"]
"""What a reader must know beside a baseline's time (docs/sandbox/verdicts.md, "Busy machines")."""
BUSY_MACHINE: BaselineLabel = "busy-machine"
BASELINE_LABELS: tuple[BaselineLabel, ...] = get_args(BaselineLabel)

ScoredBy: TypeAlias = Literal["device", "eager"]
"""Which speedup a search goes by: device time, or calls in a plain Python loop."""


class _Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Common shape. ``reason`` is one line for people and agents; logs are blobs."""

    reason: str = ""


class CompileFailed(_Outcome, frozen=True, kw_only=True, tag="compile_failed"):
    """The candidate did not import, or one of its extensions did not build."""


class Crashed(_Outcome, frozen=True, kw_only=True, tag="crashed"):
    """It raised, or its process died (``signal`` is the number, when one killed it)."""

    signal: int | None = None


class TimedOut(_Outcome, frozen=True, kw_only=True, tag="timed_out"):
    """It ran past ``limit_s`` seconds of wall clock in ``stage``."""

    stage: str
    limit_s: float


class WrongResult(_Outcome, frozen=True, kw_only=True, tag="wrong_result"):
    """An output differs from the reference. Errors are null where they are not finite."""

    trial: int | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None


class Cheated(_Outcome, frozen=True, kw_only=True, tag="cheated"):
    """It tried to look faster, or right, without being so."""


class Refused(_Outcome, frozen=True, kw_only=True, tag="refused"):
    """Right as far as was seen, and no score: ``sandbox.refuse`` names its ``label``, or its
    time is less than the device can take (then there is no label)."""

    label: str | None = None


class NoCandidate(_Outcome, frozen=True, kw_only=True, tag="no_candidate"):
    """The file holds no ``ModelNew``. Occurs in ``engine eval`` only."""


class SetScore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast a correct candidate is on one of its task's input sets: ``speedup`` with its 95 %
    interval, and what this evaluation's clock read. ``hidden``: no prompt shows the set."""

    name: str
    hidden: bool
    speedup: float
    speedup_low: float
    speedup_high: float
    candidate_ms: float
    baseline_ms: float
    eager_speedup: float | None = None


class Correct(_Outcome, frozen=True, kw_only=True, tag="correct"):
    """It agrees with the reference, and was timed in pairs against it.

    ``ratio`` is the median of the paired ratios candidate / baseline, with its 95 %
    interval ``ratio_low``..``ratio_high``. Of two looks at what would be the best so far it is
    the larger one, and the interval spans those of both. ``candidate_ms`` and ``baseline_ms`` are
    what this evaluation's clock read. ``runtime_ms`` is the node's score: the root's
    runtime times ``ratio``, so that scores taken hours apart stay comparable.
    ``speedup`` is 1 / ``ratio``; ``bounded_speedup`` is what the clock outside the
    candidate's process vouches for, whatever that process claims or leaves out (null in
    logs from before it was measured): far less than ``speedup`` where calls are short.
    ``candidate_spread`` is (p95 − p5) / median of the readings behind ``candidate_ms``, null
    in logs from before it was kept. ``labels`` are of ``LABELS``, in that order; a log of a newer
    engine may hold others. ``error`` is what the protocol bounds (the relative L2 error, by the
    strict rule), of the ``trial`` in which it came nearest to ``error_bound``; null where values
    had to be equal, and in logs from before it was kept. ``peak_bytes`` is what the candidate's
    processes need of the device's memory, or on the CPU of the host's, beyond inputs, outputs and
    the reference's parameters, by the driver's or the kernel's account; ``reference_peak_bytes``
    is the reference's. They are null where they were not measured.

    ``eager_speedup`` is the same ratio of calls in a plain Python loop, launches and host work
    included, with its 95 % interval ``eager_low``..``eager_high``; ``eager_ms`` and
    ``eager_baseline_ms`` are what a call takes there. Null on the CPU, where ``speedup`` is of
    such calls, and in logs from before it was measured. ``first_call_ms``: what the first call of
    all took. ``sets``: of a task with several input sets, the score of each; ratios, speedups and
    times beside them are geometric means then, and errors those of the set that came nearest to
    its bound.
    """

    runtime_ms: float
    speedup: float
    ratio: float
    ratio_low: float
    ratio_high: float
    pairs: int
    candidate_ms: float
    baseline_ms: float
    max_abs_error: float | None = None
    bounded_speedup: float | None = None
    candidate_spread: float | None = None
    labels: list[str] = []
    error: float | None = None
    error_bound: float | None = None
    trial: int | None = None
    peak_bytes: int | None = None
    reference_peak_bytes: int | None = None
    eager_speedup: float | None = None
    eager_low: float | None = None
    eager_high: float | None = None
    eager_ms: float | None = None
    eager_baseline_ms: float | None = None
    first_call_ms: float | None = None
    sets: list[SetScore] = []

    @property
    def worst_set(self) -> SetScore | None:
        """The input set on which it is slowest, where there are several."""
        return min(self.sets, key=lambda each: each.speedup, default=None)

    def speedup_by(self, score: ScoredBy) -> float:
        """``speedup`` where no other was measured."""
        eager = self.eager_speedup if score == "eager" else None
        return self.speedup if eager is None else eager

    def runtime_by(self, score: ScoredBy) -> float:
        """What ranks nodes, in ms: the root's runtime over that speedup."""
        if self.speedup_by(score) == self.speedup:
            return self.runtime_ms
        return self.runtime_ms * self.speedup / self.speedup_by(score)


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How busy a sandbox was when it gave a verdict. ``*_s`` are sums since it was opened,
    ``up_s`` ago; differences between two verdicts are what lies between them."""

    up_s: float
    devices: int
    device_busy_s: float
    device_queue: int
    compile_places: int
    compile_busy_s: float
    compile_queue: int


class KernelResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the assembler says that one CUDA kernel takes, as built for this evaluation.

    Registers, stack and spills are per thread, shared memory is what is declared static,
    per block. The name is the plain one, without its arguments.
    """

    kernel: str
    registers: int
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_bytes: int = 0
    constant_bytes: int = 0
    stack_bytes: int = 0

    @property
    def spill_bytes(self) -> int:
        """Stored and loaded together."""
        return self.spill_store_bytes + self.spill_load_bytes


Outcome: TypeAlias = (
    CompileFailed | Crashed | TimedOut | WrongResult | Cheated | Refused | NoCandidate | Correct
)


def is_failure(outcome: Outcome) -> bool:
    """Whether the debug agent, not the planner, gets this node next."""
    return not isinstance(outcome, Correct)
