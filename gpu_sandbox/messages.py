"""What the processes of one evaluation say to each other.

engine → verifier: ``Job``.            verifier → engine: ``Ready``, ``Stage``…, ``Report``.
verifier → worker: ``Request``s.       worker → verifier: one ``Reply`` to each.
compile child → engine: ``Built``.     facts child → engine: ``Facts``.

Tensors never travel in a frame: a ``Spot`` names their place in the arena, which the
verifier owns. A worker's reply is a claim, and is treated as one.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from gpu_sandbox.protocols import Protocol

__all__ = [
    "Agreed",
    "ArenaShared",
    "Built",
    "Differs",
    "Facts",
    "Failed",
    "Fetch",
    "Finding",
    "Forged",
    "FromVerifier",
    "Job",
    "Leaf",
    "Load",
    "Loaded",
    "Mapping",
    "Measured",
    "Pickled",
    "Plain",
    "Ran",
    "Ready",
    "Reply",
    "Report",
    "Request",
    "Run",
    "Sequence",
    "SetInputs",
    "Spot",
    "Stage",
    "TaskBroken",
    "TensorAt",
    "Time",
    "Timed",
    "Tree",
    "Warm",
    "WorkerDied",
    "WorkerFailed",
    "WorkerSilent",
]


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


# --- values: nested Python structures whose tensors lie in the arena


class Spot(msgspec.Struct, frozen=True, array_like=True):
    """A tensor's place: bytes from the arena's start, and its shape in elements."""

    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str


class TensorAt(_Message, frozen=True):
    """The ``index``-th tensor of the list that goes with the tree."""

    index: int


class Plain(_Message, frozen=True):
    value: bool | int | float | str | None


class Pickled(_Message, frozen=True):
    """Only from the trusted side to the worker; the other way it is a protocol error."""

    data: bytes


class Sequence(_Message, frozen=True):
    kind: Literal["list", "tuple"]
    items: list[Tree]


class Mapping(_Message, frozen=True):
    keys: list[Tree]
    values: list[Tree]


Tree: TypeAlias = TensorAt | Plain | Pickled | Sequence | Mapping


# --- verifier → worker


class ArenaShared(_Message, frozen=True):
    """A new arena replaces the old one. On the CPU its descriptor comes with the frame."""

    total_bytes: int
    handle: dict[str, Any]


class Load(_Message, frozen=True):
    """Import the candidate and construct its model under the weight seed."""

    source_path: str
    device: str
    threads: int
    weight_seed: int
    init: Tree
    init_spots: list[Spot]


class SetInputs(_Message, frozen=True):
    """Input set ``slot``; its tensors are views of the arena."""

    slot: int
    args: Tree
    spots: list[Spot]


class Run(_Message, frozen=True):
    """One forward on ``slot``, outputs written to ``outputs`` in leaf order."""

    slot: int
    seed: int
    outputs: list[Spot]


class Warm(_Message, frozen=True):
    calls: int
    seconds: float


class Time(_Message, frozen=True):
    """``calls`` forwards over the slots in turn, from ``first_slot`` on."""

    calls: int
    first_slot: int
    flush_bytes: int
    seed: int


class Fetch(_Message, frozen=True):
    """Write the last forward's outputs. Asked after the fact, so it can't be foreseen."""

    outputs: list[Spot]


Request: TypeAlias = ArenaShared | Load | SetInputs | Run | Warm | Time | Fetch


# --- worker → verifier


class Loaded(_Message, frozen=True):
    """``built_late``: extensions that the compile stage had not built."""

    built_late: int = 0


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """An output tensor; ``written`` unless shape or dtype kept it out of its spot."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    written: bool
    aliases_input: bool


class Ran(_Message, frozen=True):
    tree: Tree
    leaves: list[Leaf]


class Timed(_Message, frozen=True):
    """Claimed nanoseconds for the batch; ``calls`` as asked."""

    elapsed_ns: int


class Done(_Message, frozen=True):
    pass


class Failed(_Message, frozen=True):
    """The candidate raised in ``stage`` (import, construct, run): ``traceback`` names its
    own lines only."""

    stage: str
    kind: str
    message: str
    traceback: str


Reply: TypeAlias = Loaded | Ran | Timed | Done | Failed


# --- engine ↔ verifier


class Job(_Message, frozen=True):
    """What to judge. Paths and times are the engine's; the seed never reaches the worker."""

    mode: Literal["baseline", "evaluate"]
    task_path: str
    candidate_path: str
    device: str
    protocol: Protocol
    seed: int
    threads: int
    start_s: float
    call_s: float
    bench_s: float


class Ready(_Message, frozen=True):
    """Torch is imported; nothing has touched the device."""


class Stage(_Message, frozen=True):
    """Where the verifier is, for the log and for the engine's view of a death."""

    name: str


class Agreed(_Message, frozen=True):
    ratio: float
    ratio_low: float
    ratio_high: float
    pairs: int
    candidate_ms: float
    baseline_ms: float
    max_abs_error: float | None


class Measured(_Message, frozen=True):
    """The baseline alone."""

    runtime_ms: float
    spread: float
    repetitions: int


class Differs(_Message, frozen=True):
    reason: str
    trial: int | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    detail: str = ""


class WorkerFailed(_Message, frozen=True):
    """The candidate raised, during ``stage``."""

    stage: str
    kind: str
    message: str
    traceback: str


class WorkerDied(_Message, frozen=True):
    stage: str


class WorkerSilent(_Message, frozen=True):
    stage: str
    limit_s: float


class Forged(_Message, frozen=True):
    reason: str


class TaskBroken(_Message, frozen=True):
    reason: str
    detail: str = ""


Finding: TypeAlias = (
    Agreed | Measured | Differs | WorkerFailed | WorkerDied | WorkerSilent | Forged | TaskBroken
)


class Report(_Message, frozen=True):
    """The verifier's last word. ``timings_s`` has ``check`` and ``bench``."""

    finding: Finding
    timings_s: dict[str, float]
    notes: list[str] = []


FromVerifier: TypeAlias = Ready | Stage | Report


# --- compile child and facts child → engine


class Built(_Message, frozen=True):
    """``failure`` is the one-line reason of a ``CompileFailed``, or empty.

    ``deferred`` is an exception that may be due to the missing device: the worker
    imports again and decides. ``full_header`` counts builds that needed the real one.
    """

    failure: str = ""
    log: str = ""
    deferred: str = ""
    extensions: int = 0
    full_header: int = 0


class Facts(_Message, frozen=True):
    """``missing`` is why the device can't be used, or empty."""

    facts: dict[str, Any]
    missing: str = ""
