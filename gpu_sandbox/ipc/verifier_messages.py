"""What the engine says to the children that do its work, and what they find.

engine → verifier: ``Job``, ``Go``.        verifier → engine: ``Ready``, then for each job
                                           ``Stage``…, ``Report``.
engine → compile child: ``Compile``.       compile child → engine: ``Built``, once or twice.
engine → autopsy child: ``Examine``.
engine → preparation child: ``Prepare``.   preparation child → engine: ``Step``…
                                           facts child → engine: ``Facts``.
                                           ceilings child → engine: ``Probed``.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from events.observations import Ceilings, Observations, SectionName
from events.outcomes import KernelResources, Label
from gpu_sandbox.api.protocols import Precision, Protocol

MOST_BUILT = 64
"""Files of one candidate's build: they travel, and stay open until it is judged."""
MOST_PREPARED = 4
"""Candidates at a time, of one engine on one device."""
CACHES = "caches.zip"
"""Among the files of a build: what compilers left when the candidate was prepared."""
TRYING = "trying "
"""How a stage's name begins in which the reference is run on inputs that it may not survive, and
there is no candidate yet. The rest says what they are, for ``Job.leave_out``."""
_MOST_CHARS = 20_000
"""Of one text: what a reason or a log keeps of it is less."""
_MOST_TEXTS, _MOST_LISTED_CHARS = 100, 1_000


def _cut(told: str | list[str]) -> str | list[str]:
    """A text, or texts, of a length that any frame has room for."""
    if isinstance(told, str):
        return told if len(told) <= _MOST_CHARS else told[: _MOST_CHARS - 1] + "…"
    return [text[:_MOST_LISTED_CHARS] for text in told[:_MOST_TEXTS]]


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


# --- engine ↔ verifier


class Job(_Message, frozen=True):
    """What to judge. The seed never reaches the worker.

    With ``reference_pid`` comes the socket of that process, a fresh worker: it holds the reference
    from now on. With ``evaluate`` the socket of the candidate's worker comes next, and after it the
    files of ``libraries``; ``worker_pid`` is its process. Times are in seconds. ``observe``: what
    to look at besides, if it is right; that takes at most ``observe_share`` of the time until then.
    ``leave_out``: inputs that a verifier did not survive (``TRYING``).
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
    """Whether to report what the timing depends on, which the driver takes a while to tell."""
    prepared_call_ms: float = 0.0
    """What the candidate's first call took where it was prepared, in a process of its own."""


class Go(_Message, frozen=True):
    """The answer to a ``Stage`` that waits: nothing of ours disturbs the device now. ``preparing``:
    processes of ours that lie still on it (``evaluate/preparation.py``)."""

    preparing: int = 0


ToVerifier: TypeAlias = Job | Go


class Ready(_Message, frozen=True):
    """The device works, and nothing is held from an earlier job."""


class Stage(_Message, frozen=True):
    """Where the verifier is. ``waits``: for a ``Go``, before it goes on."""

    name: str
    waits: bool = False


class _Cut(_Message, frozen=True):
    """Cut as it is made, whoever makes it: a candidate has a part in many of the texts."""

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
    """``ratio`` candidate / baseline of the worker's claims, where the verifier's own
    clock bears them out, else of that clock; ``bounded_ratio`` is the most that it can be,
    whatever the worker says, and whatever it leaves out of what it should do besides.
    ``doubted``: the clock did not bear the claims out. Bytes are of the inputs, and of those
    outputs that are no views of inputs or weights. ``labels`` are what the timing tells.
    ``error`` is what the protocol holds to ``error_bound``, of the ``trial`` in which it came
    nearest to that; none where values had to be equal."""

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
    """None on the CPU, where ``ratio`` is of such calls."""
    first_call_ms: float | None = None
    """Of the candidate's first call, by the verifier's clock."""
    error: float | None = None
    error_bound: float | None = None
    trial: int | None = None
    peak_bytes: int | None = None
    reference_peak_bytes: int | None = None
    """Of memory, beyond inputs, outputs and parameters (``verifier/peak_memory.py``); None where
    that was not measured."""


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
    """The verifier's last word. ``timings_s`` has ``check`` and ``bench``, ``observe``
    if it was to look at more, and ``handover``: idle while candidates' processes
    ended, or began."""

    finding: Finding
    timings_s: dict[str, float]
    notes: list[str] = []
    observations: Observations | None = None
    conditions: dict[str, Any] = {}
    """What the timing depends on, if the job asked (``verifier/conditions.py``)."""
    busy: list[str] = []
    """Why the machine counts as busy while it was timed (``contention/thresholds.py``)."""


FromVerifier: TypeAlias = Ready | Stage | Report


# --- compile child and facts child → engine


class Compile(_Message, frozen=True):
    """Import ``candidate`` so that its extensions get built; with ``late``, also try to
    construct its model, with the init inputs of ``task``."""

    task: str
    candidate: str
    late: bool


class Examine(_Message, frozen=True):
    """Call ``candidate`` once on ``device``, on inputs of ``task``'s, in a fresh interpreter
    that ``tool`` starts with ``environment`` added. The files of ``libraries`` come as
    descriptors with the frame."""

    task: str
    candidate: str
    device: str
    tool: list[str]
    environment: dict[str, str]
    libraries: list[str]


class Prepare(_Message, frozen=True):
    """Import, construct and call ``candidate`` once on ``device``, as a worker does, on inputs of
    ``task``'s that nobody else gets. The files of ``libraries`` come as descriptors with it."""

    task: str
    candidate: str
    device: str
    threads: int
    precision: Precision
    libraries: list[str]


class Step(_Message, frozen=True):
    """The task's inputs are ``drawn``; the candidate is ``loaded``, was ``called``; what compilers
    left is ``kept``: an archive, which comes as a descriptor. Who raised is ``kept`` at once."""

    done: Literal["drawn", "loaded", "called", "kept"]


class Built(_Message, frozen=True):
    """``failure`` is the one-line reason of a ``CompileFailed``, or empty.

    ``deferred`` is an exception that may be due to the missing device: the worker
    imports again and decides. ``full_header`` counts builds that needed the real one.
    ``resources`` are of the kernels of all extensions, the worst first; ``lines`` are for
    each line of a generated file the candidate's own, or 0.
    The contents of ``files`` (relative to the extensions directory) come as descriptors
    with the frame.
    """

    failure: str = ""
    log: str = ""
    deferred: str = ""
    extensions: int = 0
    full_header: int = 0
    resources: list[KernelResources] = []
    lines: dict[str, list[int]] = {}
    files: list[str] = []


class Probed(_Message, frozen=True):
    """What a device reaches, or why that could not be found out. ``busy``: why the machine counts
    as busy while it was probed (``contention/thresholds.py``)."""

    ceilings: Ceilings | None = None
    missing: str = ""
    busy: list[str] = []


class Facts(_Message, frozen=True):
    """``missing`` is why the device can't be used, or empty."""

    facts: dict[str, Any]
    missing: str = ""
