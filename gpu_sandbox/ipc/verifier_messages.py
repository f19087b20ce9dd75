"""Messages between engine and verifier.

engine → verifier: ``Job``, ``Go``. verifier → engine: ``Ready``, then for each job ``Stage``…,
``Report``.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from events.observations import Observations, SectionName
from events.outcomes import Label
from gpu_sandbox.api.protocols import Protocol

TRYING = "trying "
"""Prefix of a stage in which the reference runs on inputs that it may not survive, before there is
a candidate. The rest names them, for ``Job.leave_out``."""
_MAX_CHARS = 20_000  # of one text: what a reason or a log keeps of it is less
_MAX_TEXTS, _MAX_LISTED_CHARS = 100, 1_000


def _cut(value: str | list[str]) -> str | list[str]:
    """A text, or texts, of a length that any frame has room for."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_CHARS else value[: _MAX_CHARS - 1] + "…"
    return [text[:_MAX_LISTED_CHARS] for text in value[:_MAX_TEXTS]]


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


# --- engine ↔ verifier


class Job(_Message, frozen=True):
    """What to judge. The seed never reaches the worker.

    With ``reference_pid`` comes the socket of that process, a fresh worker for the reference. With
    ``evaluate`` the socket of the candidate's worker, process ``worker_pid``, comes next, and then
    the files of ``libraries``. ``observe``: sections to measure of a correct candidate, within
    ``observe_share`` of the time until then. ``leave_out``: inputs that a verifier did not survive
    (``TRYING``). ``conditions``: report what the timing depends on, which takes a while.
    ``prepared_call_ms``: the candidate's first call where it was prepared.
    """

    mode: Literal["baseline", "evaluate"]
    task_source: str
    candidate_source: str
    libraries: list[str]
    device: str
    protocol: Protocol
    seed: int
    threads: int
    load_s: float
    call_s: float
    bench_s: float
    reference_pid: int | None = None
    worker_pid: int = 0
    observe: list[SectionName] = []
    observe_share: float = 0.0
    leave_out: list[str] = []
    conditions: bool = False
    prepared_call_ms: float = 0.0


class Go(_Message, frozen=True):
    """The answer to a ``Stage`` that waits: no other process of ours uses the device now.
    ``preparing``: how many are frozen on it (``evaluate/preparation.py``)."""

    preparing: int = 0


ToVerifier: TypeAlias = Job | Go


class Ready(_Message, frozen=True):
    """The device works, and nothing is held from an earlier job."""


class Stage(_Message, frozen=True):
    """Where the verifier is. ``waits``: for a ``Go``, before it goes on."""

    name: str
    waits: bool = False


class _Cut(_Message, frozen=True):
    """Texts are cut as it is made: a candidate has a part in many of them."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str | list):
                msgspec.structs.force_setattr(self, name, _cut(value))


class Looped(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls in a plain Python loop, by the verifier's clock: ``ratio`` candidate / baseline with
    its interval, and what a call takes each side."""

    ratio: float
    low: float
    high: float
    candidate_ms: float
    baseline_ms: float


class Agreed(_Cut, frozen=True):
    """A correct candidate.

    ``ratio`` candidate / baseline, as reported where the verifier's clock corroborates it, else by
    that clock (``doubted``); ``bounded_ratio`` counts all that the worker took. Bytes are of the
    inputs, and of outputs that are no views of inputs or weights. ``looped`` is None on the CPU,
    where ``ratio`` is of such calls. ``first_call_ms``: the candidate's first call, by the
    verifier's clock. ``error`` is what the protocol compares with ``error_bound``, of the ``trial``
    in which it came nearest; None where values had to be equal. ``peak_bytes``: of memory, beyond
    inputs, outputs and parameters (``verifier/peak_memory.py``); None where not measured."""

    ratio: float
    ratio_low: float
    ratio_high: float
    bounded_ratio: float
    pairs: int
    candidate_ms: float
    candidate_spread: float
    baseline_ms: float
    max_abs_error: float | None
    doubted: bool = False
    input_bytes: int = 0
    output_bytes: int = 0
    labels: list[Label] = []
    looped: Looped | None = None
    first_call_ms: float | None = None
    error: float | None = None
    error_bound: float | None = None
    trial: int | None = None
    peak_bytes: int | None = None
    reference_peak_bytes: int | None = None


class Measured(_Cut, frozen=True):
    """The baseline alone, and the task's audit (``verifier/trials/task_audit.py``). ``apart``: by
    how much two interleaved halves of its samples differ, relative."""

    runtime_ms: float
    spread: float
    repetitions: int
    apart: float = 0.0
    audit: list[str] = []


class Differs(_Cut, frozen=True):
    """``told``: what kind of inputs showed it, if that is known."""

    reason: str
    told: str = ""
    trial: int | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    detail: str = ""


class WorkerFailed(_Cut, frozen=True):
    """The candidate raised, during ``stage``."""

    stage: str
    kind: str
    message: str
    traceback: str


class WorkerDied(_Cut, frozen=True):
    """``told``: on which inputs, if that is known."""

    stage: str
    told: str = ""


class WorkerSilent(_Cut, frozen=True):
    """``together``: the limit is that of all its answers, and it was in ``stage`` by then."""

    stage: str
    limit_s: float
    together: bool = False


class Forged(_Cut, frozen=True):
    reason: str


class TaskBroken(_Cut, frozen=True):
    reason: str
    detail: str = ""


Finding: TypeAlias = (
    Agreed | Measured | Differs | WorkerFailed | WorkerDied | WorkerSilent | Forged | TaskBroken
)


class Report(_Cut, frozen=True):
    """The end of a job. ``timings_s`` has ``check`` and ``bench``, ``observe`` if asked, and
    ``handover``: idle while candidates' processes ended or began. ``conditions``: what the timing
    depends on, if asked (``verifier/job.py``); ``busy``: why the machine counts as busy
    while it was timed (``contention/thresholds.py``)."""

    finding: Finding
    timings_s: dict[str, float]
    notes: list[str] = []
    observations: Observations | None = None
    conditions: dict[str, Any] = {}
    busy: list[str] = []


FromVerifier: TypeAlias = Ready | Stage | Report
