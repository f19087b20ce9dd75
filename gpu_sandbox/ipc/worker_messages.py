"""What verifier and worker say to each other: one ``Reply`` to each ``Request``, and after that to
``StandBy`` another if what it announced fails.

Tensors never travel in a frame: a ``Spot`` names their place in the arena, which the
verifier owns. A worker's reply is a claim, and is treated as one.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from events.observations import Profile
from gpu_sandbox.api.protocols import Precision

MOST_DIMS = 64
"""Of an output: those that torch can compute with."""
MOST_TENSORS = 10_000
"""Of one output."""
MOST_REPLY_BYTES = 4 << 20
"""Several times what describes so many tensors."""


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


# --- engine → worker


class MakeContext(_Message, frozen=True):
    """To one on a GPU whose driver has started: before anybody else has a word with it."""


# --- verifier → worker


class ArenaShared(_Message, frozen=True):
    """A new arena replaces the old one. Its descriptor comes with the frame. ``host``: it
    is host memory, for the gates of a CUDA worker."""

    total_bytes: int
    host: bool = False


class ShowMemory(_Message, frozen=True):
    """On the CPU, before there is a candidate: with ``Done`` comes a descriptor of the worker's own
    memory (``verifier/worker_link/worker_memory.py``)."""


class LoadKernels(_Message, frozen=True):
    """Machine code of the harness's own (``cuda/nvrtc.py``)."""

    image: bytes


class Load(_Message, frozen=True):
    """Import the candidate and construct its model under the weight seed.

    ``libraries`` are the files (relative to the extensions directory) whose contents come
    as descriptors with the frame. ``owned``: of each output whether it is its caller's, who
    writes over it when it is done with it.
    """

    source: str
    class_name: str
    owned: list[bool]
    libraries: list[str]
    device: str
    threads: int
    precision: Precision
    weight_seed: int
    init: Tree
    init_spots: list[Spot]


class ConstructAnew(_Message, frozen=True):
    """Construct the candidate's model once more, in place of the one that was called."""


class Constant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new module holds as ``elements`` times the same ``value``, and a trained one does
    not: what it is to hold is drawn by ``seed`` (``tensors/trained_state.py``)."""

    elements: int
    value: float
    seed: int


class ConstructTrained(_Message, frozen=True):
    """Construct the candidate's model once more, with these constants as a trained module holds
    them, and call that one until ``Restore``. ``broad``: tensors that are no parameters count as
    well; ``frozen``: so do parameters that take no gradient."""

    constants: list[Constant]
    broad: bool = False
    frozen: bool = False


class Restore(_Message, frozen=True):
    """Drop the model that ``ConstructTrained`` made, and call the one before it."""


class WeightAt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter or buffer of the reference's, or what of it begins at index ``start`` of its
    first dimension. ``shape`` is that of all of it."""

    name: str
    shape: tuple[int, ...]
    start: int
    spot: Spot


class CompareWeights(_Message, frozen=True):
    """Compare these with the model's own of the same names and shapes. ``load``: and take them
    over where they differ."""

    weights: list[WeightAt]
    load: bool


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slot ``slot``: its arguments, whose tensors are views of the arena, and the places
    of the outputs, in leaf order. What lies there changes from call to call."""

    slot: int
    args: Tree
    inputs: list[Spot]
    outputs: list[Spot]


class Lay(_Message, frozen=True):
    """These slots are so from now on; with ``anew`` there are no others any more."""

    places: list[Place]
    anew: bool = False


class Run(_Message, frozen=True):
    """One forward on ``slot``, and one on each slot of ``then`` before the first one's outputs are
    delivered: buffers that are used again show."""

    slot: int
    seed: int
    then: list[int] = []


class PutInOrder(_Message, frozen=True):
    """From now on what the model returns lies in the order of its indices: what that takes is a
    part of each call."""


class Warm(_Message, frozen=True):
    calls: int
    seconds: float


Gate: TypeAlias = Literal["none", "once", "each"]


class Time(_Message, frozen=True):
    """On CUDA one forward on each of ``calls`` slots from ``first`` on, each output delivered.

    The first is seeded with ``seed``, the next with ``seed`` + 1, and so on. Before each,
    ``flush_bytes`` are written and the device is kept busy for ``cover_us``
    microseconds, so that the call is queued before its turn comes.

    ``gate`` (``verifier/timing/gates.py``): all are queued, and begin when the key to the inputs is
    there, "once" to those of all calls, or "each" to those of one, when the call before is done.
    Then nothing is claimed, and with ``empty`` nothing is called; without a gate, a kernel on one
    element in place of the model. ``left``: what calls leave of their inputs is digested, too."""

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
    nothing; then one wait for the device; then each output to its place, and ``Timed`` without
    claims. Seeds as in ``Time``. ``empty``: all but the model."""

    calls: int
    seed: int
    first: int = 0
    empty: bool = False


class StandBy(_Message, frozen=True):
    """On the CPU: get ready for one forward on ``slot``, say ``Done``, and make it when its seed
    comes. From then on there are no frames but a few bytes each way (``ipc/cpu_call_messages.py``).

    To get ready, the last forward is repeated on the inputs that it had, so many ``rehearsals``, or
    fewer if they take longer than ``within_s``. There may not have been one."""

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
    """Give back what allocators keep of freed memory, earlier outputs and the harness's own
    buffers; and the ``arena``, until the next one comes. What the model holds stays."""

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


class Loaded(_Message, frozen=True):
    """``built_late``: extensions that the compile stage had not built."""

    built_late: int = 0


class Unlike(msgspec.Struct, frozen=True, array_like=True):
    """One of the request's ``weights``, by number, that differs: the sums of squares of the
    difference, and of the reference's values; how many elements are ``same`` nevertheless."""

    number: int
    off: float
    size: float
    same: int


class Compared(_Message, frozen=True):
    unlike: Annotated[list[Unlike], msgspec.Meta(max_length=MOST_TENSORS)]


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """An output tensor. ``written``: it is of the shape, dtype and kind of device that were
    expected, and in its spot, but where the CPU is timed. ``overlapping``: several of its elements
    are one place in memory; ``shared``: some are another output's, too; ``in_order``: they
    lie in the order of their indices, with gaps between rows at most. ``stride``, in elements:
    behind a gate, of what lies in the spot, if it is of its own order
    (``worker/gated_outputs.py``). ``of_input``: the number of the input whose memory it is;
    ``of_earlier``: it is the memory of an earlier call's output, which the candidate has kept."""

    shape: Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_DIMS)]
    dtype: str
    device: str
    written: bool
    aliases_input: bool
    overlapping: bool
    shared: bool = False
    in_order: bool = True
    stride: Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_DIMS)] = ()
    of_input: int | None = None
    of_earlier: bool = False


class Ran(_Message, frozen=True):
    """``handled_ns``: where the CPU is timed, how long it took to tell of the output, and
    ``copied_ns`` how much of that to copy what can't be read as it lies."""

    tree: Tree
    leaves: Annotated[list[Leaf], msgspec.Meta(max_length=MOST_TENSORS)]
    handled_ns: int = 0
    copied_ns: int = 0


class Timed(_Message, frozen=True):
    """Claimed nanoseconds of each call, if asked; ``last`` describes the last output, and
    ``launch_ns`` is what queueing a call takes, on average, ``loop_ns`` with all around it.
    ``plain``, but for behind a gate: a digest of each call's plain values (``tensors/pytree.py``),
    if there are any."""

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
    """The candidate raised in ``stage`` (import, construct, run): ``traceback`` names its
    own lines only."""

    stage: str
    kind: str
    message: str
    traceback: str


Reply: TypeAlias = Loaded | Compared | Ran | Timed | Profiled | Done | Failed
