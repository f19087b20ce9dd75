"""The evaluator port: requests of a search, and what a sandbox answers."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from events.observations import Observations, SectionName
from events.outcomes import (
    BaselineKind,
    BaselineLabel,
    KernelResources,
    Label,
    Outcome,
    PoolUsage,
    ScoredBy,
)


class SandboxFault(Exception):
    """The sandbox itself failed, which says nothing about the candidate."""


class NoDeviceLeft(SandboxFault):
    """All requested devices are quarantined until the machine is mended. The message names each
    with the reason."""


class PrerequisiteMissing(Exception):
    """This machine lacks a compiler, device or package; the message says what to do."""


class TaskUnusable(Exception):
    """The task file can't be evaluated: no ``Model``, a crash, nondeterminism. ``args[0]`` is one
    line; ``detail`` is what the reference printed, cut."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


class BaselineRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Check the task and time its reference, eager; or compiled, in pairs with eager."""

    task_name: str
    task_source: str
    device: str
    """``cpu``, ``cuda:N``, or several alike with commas between: whichever is free."""
    protocol: str
    seed: int
    kind: BaselineKind = "eager"
    reuse: bool = False
    """A cached one of the same task, device and versions will do."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The root's runtime; or a compiled baseline's, which may have failed like a candidate: then
    ``outcome`` says how, and there is no runtime. ``spread`` is (p95 − p5) / median of eager's
    repetitions; a compiled one's ``repetitions`` are the pairs in its outcome."""

    runtime_ms: float | None
    spread: float | None
    repetitions: int
    timings_s: dict[str, float]
    isolation: list[str]
    audit: list[str] = []
    """What a kernel that computes nothing would pass, and how far the reference is from repeating
    itself; empty if nothing."""
    conditions: dict[str, Any] = {}
    """Of the measurement: device, versions, threads, precision modes, clocks."""
    notes: list[str] = []
    kind: BaselineKind = "eager"
    outcome: Outcome | None = None
    cached: bool = False
    measured_at: str = ""
    """In UTC, as in 2026-11-21T14:03:00Z."""
    labels: list[BaselineLabel] = []
    """The note that begins with a label's name gives its reason."""


class EvaluationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Judge one candidate.

    ``seed`` goes into the secret that inputs are drawn under; it does not make verdicts repeatable.
    ``root_ms`` is the root's runtime from its baseline, which the paired ratio is multiplied by
    (without it, this evaluation's own baseline). ``incumbent_ms`` is the best runtime so far, by
    ``score``. ``observe`` names sections of correct candidates: ``roofline``, ``profile``,
    ``counters``.
    """

    task_name: str
    task_source: str
    candidate_source: str
    device: str
    protocol: str
    seed: int
    root_ms: float | None = None
    incumbent_ms: float | None = None
    score: ScoredBy = "device"
    reuse: bool = False
    """A cached verdict will do, unless it would be the best so far."""
    observe: tuple[SectionName, ...] = ()
    conditions: bool = False
    """Whether to report conditions of the timing, as for a baseline."""
    refuse: tuple[Label, ...] = ()
    """A correct candidate with one of these labels is ``Refused``."""
    autopsy_of_wrong: bool = True
    """Whether wrong candidates are run in a sanitizer, too, and not only crashed ones."""
    autopsy_yields: bool = False
    """Whether an autopsy is left out, or broken off, when others wait for its place."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a candidate, and how it was found.

    ``timings_s`` has the seconds of stages that were reached: ``guard``, ``start`` (of the
    sandbox's own processes), ``compile``, ``prepare``, ``check``, ``bench``, ``observe``,
    ``handover`` (between candidates' processes), ``lease`` (the device was held) and ``autopsy``
    (waiting included). ``queue_s`` is spent waiting for a compile place or the device. Logs are cut
    to the output limit and name the candidate's own lines. ``resources`` are of at most 16 built
    CUDA kernels. ``isolation`` lists layers that held, and ``missing:NAME`` for others.
    """

    outcome: Outcome
    protocol: str
    timings_s: dict[str, float]
    queue_s: float
    device: str
    isolation: list[str]
    compile_log: str = ""
    run_log: str = ""
    notes: list[str] = []
    usage: PoolUsage | None = None
    resources: list[KernelResources] = []
    cached: bool = False
    """Then it has no times."""
    observations: Observations | None = None
    conditions: dict[str, Any] = {}
    """Of the timing, if requested: versions, threads, precision modes, clocks."""
    measured_at: str = ""
    """In UTC, as in 2026-11-21T14:03:00Z."""
    busy: list[str] = []
    """Why the machine counts as busy (``contention/thresholds.py``); then it is not cached."""


class DeviceLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Load of the pool, for progress displays."""

    compiling: int
    waiting_to_compile: int
    waiting_for_device: int
    on_device: int
    quarantined: dict[str, str] = {}
    """Device → reason."""


class Evaluator(Protocol):
    """Runs candidates. Safe to call concurrently; serializes what must be serial.

    Cancelling a call kills what it started and frees its lease.
    """

    async def baseline(self, request: BaselineRequest) -> Baseline:
        """Raises ``TaskUnusable``, ``PrerequisiteMissing`` or ``SandboxFault``."""
        ...

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        """Raises ``SandboxFault`` or ``PrerequisiteMissing``; never for a bad candidate."""
        ...

    def load(self) -> DeviceLoad: ...

    async def fingerprint(self, device: str) -> dict[str, Any]:
        """Facts of the device: ``kind`` (``cpu``/``cuda``), ``name``, and, for cuda,
        ``compute_capability``, ``sm_count``, ``shared_memory_per_block_bytes``, ``l2_bytes``,
        ``memory_bytes``, ``bandwidth_gb_s`` (null if unknown), ``driver``; for cpu ``cores``,
        ``vector_bits``, ``isa``; always ``torch`` and ``cuda`` versions (null without).

        Raises ``PrerequisiteMissing`` for a device that this machine does not have.
        """
        ...
