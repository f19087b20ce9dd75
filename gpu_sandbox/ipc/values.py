"""Values in messages: nested Python structures whose tensors lie in the arena."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

MAX_DIMS = 64  # of an output: those that torch can compute with
MAX_TENSORS = 10_000  # of one output


class _Value(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


class Spot(msgspec.Struct, frozen=True, array_like=True):
    """A tensor's place: bytes from the arena's start, and its shape in elements."""

    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str


class TensorAt(_Value, frozen=True):
    """The ``index``-th tensor of the list that goes with the tree."""

    index: int


class Plain(_Value, frozen=True):
    value: bool | int | float | str | None


class Pickled(_Value, frozen=True):
    """Only from the verifier to the worker; the other way it is a protocol error."""

    data: bytes


class Sequence(_Value, frozen=True):
    kind: Literal["list", "tuple"]
    items: list[Tree]


class Mapping(_Value, frozen=True):
    keys: list[Tree]
    values: list[Tree]


Tree: TypeAlias = TensorAt | Plain | Pickled | Sequence | Mapping
