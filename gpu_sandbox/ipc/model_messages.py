"""Messages by which a worker constructs the candidate's model and compares its weights."""

from __future__ import annotations

from typing import Annotated

import msgspec

from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.ipc.values import MAX_TENSORS, Spot, Tree


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


# --- verifier → worker


class Load(_Message, frozen=True):
    """Import the candidate and construct its model under the weight seed.

    ``libraries`` are files, relative to the extensions directory, whose contents come as
    descriptors with the frame. ``owned``: of each output whether its caller owns it, and overwrites
    it after use."""

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
    """``elements`` times the same ``value``, which a new module holds and a trained one does not:
    its values are drawn by ``seed`` (``tensors/trained_state.py``)."""

    elements: int
    value: float
    seed: int


class ConstructTrained(_Message, frozen=True):
    """Construct the candidate's model once more with drawn values for these constants, and call
    that one until ``Restore``. ``broad``: also in tensors that are no parameters; ``frozen``: also
    in parameters that take no gradient."""

    constants: list[Constant]
    broad: bool = False
    frozen: bool = False


class Restore(_Message, frozen=True):
    """Drop the model that ``ConstructTrained`` made, and call the one before it."""


class WeightAt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter or buffer of the reference, of ``shape``, or the part of it that begins at index
    ``start`` of its first dimension."""

    name: str
    shape: tuple[int, ...]
    start: int
    spot: Spot


class CompareWeights(_Message, frozen=True):
    """Compare these with the model's own of the same names and shapes. ``load``: and take them
    over where they differ."""

    weights: list[WeightAt]
    load: bool


# --- worker → verifier


class Loaded(_Message, frozen=True):
    """``built_late``: extensions that the compile stage had not built."""

    built_late: int = 0


class Unlike(msgspec.Struct, frozen=True, array_like=True):
    """One of the request's ``weights`` that differs, by number: the sums of squares of the
    difference and of the reference's values, and how many elements are the ``same``."""

    number: int
    off: float
    size: float
    same: int


class Compared(_Message, frozen=True):
    unlike: Annotated[list[Unlike], msgspec.Meta(max_length=MAX_TENSORS)]
