"""The evaluator port: what the search asks of a sandbox, and what it gets back.

The search knows nothing of processes, compilers or devices; whatever runs candidates
(this machine's sandbox, a fake in tests, another host) implements ``Evaluator``.
"""

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
    """The sandbox itself failed; the candidate is not to blame and nothing is concluded."""


class NoDeviceLeft(SandboxFault):
    """All devices that were asked for are quarantined: trying again is of no use before the
    machine is mended. The message names each with the reason."""


class PrerequisiteMissing(Exception):
    """This machine lacks something (compiler, device, package); the message says what to do."""


class TaskUnusable(Exception):
    """The task file can't be evaluated: no ``Model``, a crash, nondeterminism, …

    ``args[0]`` is one line; ``detail`` is what the reference printed, cut to size.
    """

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
    """One that was measured before will do: for the same task, device and versions."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The root's runtime; or a compiled baseline's, which may have failed like a candidate:
    then ``outcome`` says how, and there is no runtime.

    ``spread`` is (p95 − p5) / median of eager's repetitions; a compiled one's
    ``repetitions`` are the pairs in its outcome.
    """

    runtime_ms: float | None
    spread: float | None
    repetitions: int
    timings_s: dict[str, float]
    isolation: list[str]
    audit: list[str] = []
    """What a kernel that computes nothing gets away with on this task, and how far its reference
    is from repeating itself; empty if nothing."""
    conditions: dict[str, Any] = {}
    """What the figure depends on: device, versions, threads, precision modes, clocks."""
    notes: list[str] = []
    kind: BaselineKind = "eager"
    outcome: Outcome | None = None
    cached: bool = False
    """Measured before, and not now."""
    measured_at: str = ""
    """The moment, in UTC, as in 2026-11-21T14:03:00Z."""
    labels: list[BaselineLabel] = []
    """What to know beside the runtime; the note that begins with a label's name says why."""


class EvaluationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Judge one candidate.

    ``seed`` goes into the secret that inputs are drawn under; it does not make a verdict
    repeatable, which would let candidates know their inputs.
    ``root_ms`` is the root's runtime from its baseline: a correct candidate's
    ``runtime_ms`` is ``root_ms`` times the paired ratio (without it, times this
    evaluation's own baseline reading). ``incumbent_ms`` is the best runtime so far, by ``score``
    (``Correct.runtime_by``).
    ``observe`` names what is to be observed besides, if that costs something: ``roofline``,
    ``profile``, ``counters``; of correct candidates only.
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
    """A verdict that was given before will do, unless it would be the best so far."""
    observe: tuple[SectionName, ...] = ()
    conditions: bool = False
    """Whether to find out what its timing depends on, as for a baseline."""
    refuse: tuple[Label, ...] = ()
    """A correct candidate with one of these labels is ``Refused``."""
    autopsy_of_wrong: bool = True
    """Whether what is wrong is run in a sanitizer as well, and not only what crashed."""
    autopsy_yields: bool = False
    """Whether an autopsy is left out, or broken off, as soon as others wait for its place."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the candidate, and how it was found.

    ``timings_s`` has, in seconds, ``guard``, ``start`` (of the sandbox's own processes, which the
    first verdicts wait for), ``compile``, ``prepare``, ``check``, ``bench``, ``observe``,
    ``handover`` (idle while candidates' processes end and begin), ``lease`` (how long the device
    was held) and ``autopsy`` (with its own wait, if there was one); a stage that was not reached
    is absent. ``queue_s`` is time spent waiting for a place in the pool or for the device. The
    logs are cut to the sandbox's output limit and name the candidate's own file and lines.
    ``resources`` are of the CUDA kernels that were built for it, at most 16.
    ``isolation`` lists the layers that held, and ``missing:NAME`` for those that could not.
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
    """Given before, and not now: it has no times."""
    observations: Observations | None = None
    conditions: dict[str, Any] = {}
    """What the timing depends on, if that was asked: versions, threads, precision modes, clocks."""
    measured_at: str = ""
    """The moment of the verdict, in UTC, as in 2026-11-21T14:03:00Z."""
    busy: list[str] = []
    """Why the machine counts as busy while it was timed (``contention/thresholds.py``). Both sides
    of a pair were, so that the ratio stands; but such a verdict is not kept."""


class DeviceLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A glance at the pool for progress displays."""

    compiling: int
    waiting_to_compile: int
    waiting_for_device: int
    on_device: int
    quarantined: dict[str, str] = {}
    """Devices that are used no more, and why."""


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
