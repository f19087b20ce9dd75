"""Messages between verifier and worker: one ``Reply`` to each ``Request``, and after that to
``StandBy`` another if what it announced fails.

Tensors never travel in a frame: a ``Spot`` names their place in the arena, which the verifier owns.
The worker is untrusted: a reply is a statement.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from events.observations import Profile
from gpu_sandbox.ipc.model_messages import (
    Compared,
    CompareWeights,
    ConstructAnew,
    ConstructTrained,
    Load,
    Loaded,
    Restore,
)
from gpu_sandbox.ipc.values import MAX_DIMS, MAX_TENSORS, Spot, Tree

MAX_REPLY_BYTES = 4 << 20  # several times what describes ``MAX_TENSORS``


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


# --- engine → worker


class MakeContext(_Message, frozen=True):
    """To a worker on a GPU whose driver has started, before any other request."""


# --- verifier → worker


class ArenaShared(_Message, frozen=True):
    """A new arena replaces the old one; its descriptor comes with the frame. ``host``: host memory,
    for the gates of a CUDA worker."""

    total_bytes: int
    host: bool = False


class ShowMemory(_Message, frozen=True):
    """On the CPU, before there is a candidate: descriptors of the worker's own memory come with
    ``Done`` (``verifier/worker_link/worker_memory.py``)."""


class LoadKernels(_Message, frozen=True):
    """Machine code of the harness's own (``cuda/nvrtc.py``)."""

    image: bytes


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of slot ``slot``, whose tensors are views of the arena, and the places of its
    outputs, in leaf order."""

    slot: int
    args: Tree
    inputs: list[Spot]
    outputs: list[Spot]


class Lay(_Message, frozen=True):
    """Set these slots; with ``anew`` there are no others any more."""

    places: list[Place]
    anew: bool = False


class Run(_Message, frozen=True):
    """One forward on ``slot``, and one on each slot of ``then`` before the first one's outputs are
    delivered, which shows buffers that are used again."""

    slot: int
    seed: int
    then: list[int] = []


class PutInOrder(_Message, frozen=True):
    """From now on, return outputs in the order of their indices; what that takes is a part of each
    call."""


class Warm(_Message, frozen=True):
    """At least so many forwards, and at least so long."""

    calls: int
    seconds: float


Gate: TypeAlias = Literal["none", "once", "each"]


class Time(_Message, frozen=True):
    """On CUDA, one forward on each of ``calls`` slots from ``first`` on, each output delivered.

    Seeds are ``seed``, ``seed`` + 1 and so on. Before each call ``flush_bytes`` are written and the
    device is kept busy for ``cover_us`` microseconds, so that the call is queued before its turn.

    ``gate`` (``timing/gates.py``): calls are queued, and begin when the key to their inputs comes,
    "once" for all, or "each" when the call before is done. Then no times are reported, and with
    ``empty`` nothing is called; without a gate, ``empty`` is a kernel on one element in place of
    the model. ``left``: mutated inputs are digested, too."""

    calls: int
    seed: int
    flush_bytes: int
    cover_us: int
    first: int = 0
    gate: Gate = "none"
    empty: bool = False
    left: bool = False


class Loop(_Message, frozen=True):
    """One forward on each of ``calls`` slots from ``first`` on, in a plain loop that waits for
    nothing; then one wait for the device; then each output is delivered. No times are reported.
    Seeds as in ``Time``. ``empty``: all but the model."""

    calls: int
    seed: int
    first: int = 0
    empty: bool = False


class StandBy(_Message, frozen=True):
    """On the CPU, get ready for one forward on ``slot``, say ``Done``, and make it when its seed
    comes. From then on there are a few bytes each way, no frames (``cpu_call_messages.py``).

    To get ready, the last forward, if any, is repeated on its inputs, ``rehearsals`` times or for
    ``within_s``."""

    slot: int = 0
    rehearsals: int = 0
    within_s: float = 0.0


class Describe(_Message, frozen=True):
    """The output of that forward."""


class Recall(_Message, frozen=True):
    """The plain values of that call of the last ``Time``, in a ``Ran`` without leaves."""

    call: int


class ProfileCalls(_Message, frozen=True):
    """So many forwards under torch's profiler, on the slots in turn."""

    calls: int


class ReleaseMemory(_Message, frozen=True):
    """Give back what allocators keep, earlier outputs and the harness's own buffers; and the
    ``arena``, until the next one comes. What the model holds stays."""

    arena: bool = False


class Repeat(_Message, frozen=True):
    """So many forwards, on the slots in turn, one output at a time."""

    calls: int


Request: TypeAlias = (
    MakeContext
    | ArenaShared
    | ShowMemory
    | LoadKernels
    | Load
    | ConstructAnew
    | ConstructTrained
    | Restore
    | CompareWeights
    | Lay
    | PutInOrder
    | Run
    | Warm
    | Time
    | Loop
    | StandBy
    | Describe
    | Recall
    | ProfileCalls
    | ReleaseMemory
    | Repeat
)


# --- worker → verifier


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """An output tensor.

    ``written``: it has the expected shape, dtype and kind of device, and is in its spot, except
    where the CPU is timed. ``overlapping``: some of its elements share memory; ``shared``: some are
    another output's, too; ``in_order``: elements lie in the order of their indices, with gaps
    between rows at most. ``stride``: in elements, how a gated output lies in its spot, if it has an
    order of its own (``worker/gated_calls.py``). ``of_input``: the number of the input whose
    memory it is; ``of_earlier``: it is memory of an earlier output that the candidate has kept."""

    shape: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_DIMS)]
    dtype: str
    device: str
    written: bool
    aliases_input: bool
    overlapping: bool
    shared: bool = False
    in_order: bool = True
    stride: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_DIMS)] = ()
    of_input: int | None = None
    of_earlier: bool = False


class Ran(_Message, frozen=True):
    """``handled_ns``: where the CPU is timed, how long describing the output took, and
    ``copied_ns`` how much of that to copy what can't be read as it lies."""

    tree: Tree
    leaves: Annotated[list[Leaf], msgspec.Meta(max_length=MAX_TENSORS)]
    handled_ns: int = 0
    copied_ns: int = 0


class Timed(_Message, frozen=True):
    """Self-reported nanoseconds of each call, if asked. ``last`` describes the last output;
    ``launch_ns`` is the mean time to queue a call, ``loop_ns`` with all around it. ``plain``: a
    digest of each call's plain values, if there are any, except behind a gate."""

    elapsed_ns: list[int]
    last: Ran
    launch_ns: int = 0
    loop_ns: int = 0
    plain: list[bytes] = []


class Profiled(_Message, frozen=True):
    profile: Profile


class Done(_Message, frozen=True):
    pass


class Failed(_Message, frozen=True):
    """The candidate raised in ``stage`` (import, construct, run). ``traceback`` names its own
    lines only."""

    stage: str
    kind: str
    message: str
    traceback: str


Reply: TypeAlias = Loaded | Compared | Ran | Timed | Profiled | Done | Failed
