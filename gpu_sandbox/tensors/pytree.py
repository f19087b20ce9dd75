"""Nested arguments and outputs as trees whose tensors are listed apart.

List, tuple and dict stay apart, because an output's structure is compared; a dict's order does not
count, and a dataclass counts as its fields. Pickle exists in one direction only: the verifier may
give the worker an object without a plain form; ``unpack`` refuses one unless allowed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import torch

from gpu_sandbox.ipc.cpu_call_messages import DIGEST_BYTES, NOTHING_PLAIN
from gpu_sandbox.ipc.values import (
    MAX_DIMS,
    MAX_TENSORS,
    Mapping,
    Pickled,
    Plain,
    Sequence,
    TensorAt,
    Tree,
)

TASK_MODULE = "task"  # the name under which a task file is imported

_PLAIN = (type(None), bool, int, float, str)
_MAX_DEPTH = 50
_SHOWN_CHARS = 200
_COMPARED = "compared are tensors, numbers, texts and None, in lists, tuples, dicts, dataclasses"
_RELATIVE, _LEAST = 1e-4, 1e-7  # the second only where all values were zero


class NotPlain(Exception):
    """A value that can't cross: neither tensor nor plain data."""


def pack(value: Any, tensors: list[torch.Tensor], *, pickling: bool, depth: int = 0) -> Tree:
    """The tree of ``value``; its tensors are appended to ``tensors``."""
    if depth > _MAX_DEPTH:
        raise NotPlain("nested more than 50 deep")
    if isinstance(value, torch.Tensor):
        if not pickling and value.dim() > MAX_DIMS:
            raise NotPlain(f"a tensor of more than {MAX_DIMS} dimensions")
        if not pickling and len(tensors) == MAX_TENSORS:
            raise NotPlain(f"more than {MAX_TENSORS} tensors")
        tensors.append(value)
        return TensorAt(index=len(tensors) - 1)
    if type(value) in _PLAIN and not (type(value) is int and abs(value) >= 1 << 63):
        return Plain(value=value)

    def inner(item: Any) -> Tree:
        return pack(item, tensors, pickling=pickling, depth=depth + 1)

    if not pickling and dataclasses.is_dataclass(value) and not isinstance(value, type | dict):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if type(value) is dict or (isinstance(value, dict) and not pickling):
        keys = list(value) if pickling else sorted(value, key=_order)
        return Mapping(keys=[inner(k) for k in keys], values=[inner(value[k]) for k in keys])
    if type(value) in (list, tuple) or (isinstance(value, list | tuple) and not pickling):
        kind = "list" if isinstance(value, list) else "tuple"
        return Sequence(kind=kind, items=[inner(item) for item in value])  # type: ignore[arg-type]
    named = f"a value of type {type(value).__module__}.{type(value).__qualname__}"
    if not pickling:
        raise NotPlain(f"{named}; {_COMPARED}")
    if TASK_MODULE in (type(value).__module__, getattr(value, "__module__", "")):
        raise NotPlain(f"{named}, which the task file defines: candidates don't have that")
    try:
        return Pickled(data=pickle.dumps(value))
    except Exception as error:
        raise NotPlain(f"{named}, which can't be handed on: {error}") from None


def _order(key: Any) -> tuple[str, str]:
    return type(key).__name__, repr(key)


def plain_digest(tree: Tree) -> bytes:
    """Digest of a tree's plain values; ``NOTHING_PLAIN`` if it has none. Raises ``RecursionError``
    for a tree that ``pack`` has not made."""
    if not _has_plain(tree):
        return NOTHING_PLAIN
    return hashlib.blake2b(msgspec.msgpack.encode(tree), digest_size=DIGEST_BYTES).digest()


def plain_digests(trees: list[Tree]) -> list[bytes]:
    """``plain_digest`` of each; none where none has plain values."""
    found = [plain_digest(tree) for tree in trees]
    return found if any(digest != NOTHING_PLAIN for digest in found) else []


def _has_plain(tree: Tree) -> bool:
    match tree:
        case Plain():
            return True
        case Sequence(items=items):
            return any(_has_plain(item) for item in items if type(item) is not TensorAt)
        case Mapping(keys=keys, values=values):
            return any(map(_has_plain, (*keys, *values)))
    return False


def mapped(value: Any, function: Any) -> Any:
    """``value`` with every tensor replaced by ``function(tensor)``, called once for each tensor."""
    return _mapped(value, function, {})


def _mapped(value: Any, function: Any, done: dict[int, Any]) -> Any:
    """No recursive closure: its cycle would keep ``done``, gigabytes maybe, for a while."""
    if isinstance(value, torch.Tensor):
        if id(value) not in done:
            done[id(value)] = function(value)
        return done[id(value)]
    if type(value) in (list, tuple):
        return type(value)(_mapped(item, function, done) for item in value)
    if type(value) is dict:
        return {key: _mapped(one, function, done) for key, one in value.items()}
    return value


def odd(tensor: torch.Tensor) -> str:
    """Why it is not a dense tensor that can be drawn, copied and compared; empty if it is."""
    if tensor.is_nested:
        return "nested"
    if tensor.layout != torch.strided:
        return "laid out as " + str(tensor.layout).removeprefix("torch.")
    if tensor.is_quantized:
        return "quantized"
    return "on the meta device" if tensor.is_meta else ""


def unpack(tree: Tree, tensors: list[torch.Tensor], *, unpickling: bool) -> Any:
    match tree:
        case TensorAt(index=index):
            return tensors[index]
        case Plain(value=value):
            return value
        case Sequence(kind=kind, items=items):
            found = [unpack(item, tensors, unpickling=unpickling) for item in items]
            return found if kind == "list" else tuple(found)
        case Mapping(keys=keys, values=values):
            return {
                unpack(k, tensors, unpickling=unpickling): unpack(v, tensors, unpickling=unpickling)
                for k, v in zip(keys, values, strict=True)
            }
        case Pickled(data=data) if unpickling:
            return pickle.loads(data)
    raise NotPlain("a pickled value from the untrusted side")


def same_shape(expected: Tree, got: Tree) -> str | None:
    """Why two trees differ in structure, or None. Plain values must have the same type; keys must
    be the same. A list and a tuple of the same items count as equal."""
    match expected, got:
        case TensorAt(index=a), TensorAt(index=b):
            return None if a == b else "tensors in another order"
        case Plain(value=a), Plain(value=b):
            return None if type(a) is type(b) else f"expected {_shown(a)}, got {_shown(b)}"
        case Sequence(items=a), Sequence(items=b):
            return _same_items(a, b, "items")
        case Mapping(keys=ka, values=va), Mapping(keys=kb, values=vb):
            unlike = _same_items(ka, kb, "keys") or _same_keys(ka, kb)
            return unlike or _same_items(va, vb, "values")
    return f"expected {_name(expected)}, got {_name(got)}"


def same_values(
    expected: Tree, got: Tree, usual: Iterable[float] = (), *, but_whole: bool = False
) -> str | None:
    """Which plain value differs, or None, of trees of the same structure. ``usual``: typical sizes
    of values, as of ``numbers``; ``but_whole``: whole numbers do not count."""
    sizes = itertools.chain(usual, itertools.repeat(0.0))
    found = zip(_values(expected), _values(got), sizes, strict=False)
    return next(
        (
            f"expected {_shown(a)}, got {_shown(b)}"
            for a, b, size in found
            if not (_plain_equal(a, b, size) or (but_whole and type(a) is type(b) is int))
        ),
        None,
    )


def whole_numbers(tree: Tree) -> list[int]:
    """Plain whole numbers, in order."""
    return [value for value in _values(tree) if type(value) is int]


def numbers(tree: Tree) -> list[float]:
    """Absolute value of each plain one that is a finite floating point number; 0 for others."""
    return [
        abs(value) if isinstance(value, float) and math.isfinite(value) else 0.0
        for value in _values(tree)
    ]


def _values(tree: Tree) -> Iterator[Any]:
    """Plain values in order, without keys."""
    match tree:
        case Plain(value=value):
            yield value
        case Sequence(items=items) | Mapping(values=items):
            for item in items:
                yield from _values(item)
        case _:
            pass


def _same_items(expected: list[Tree], got: list[Tree], what: str) -> str | None:
    if len(expected) != len(got):
        return f"expected {len(expected)} {what}, got {len(got)}"
    differences = (same_shape(a, b) for a, b in zip(expected, got, strict=True))
    return next((found for found in differences if found), None)


def _same_keys(expected: list[Tree], got: list[Tree]) -> str | None:
    differences = (same_values(a, b) for a, b in zip(expected, got, strict=True))
    return next((found for found in differences if found), None)


def _plain_equal(a: Any, b: Any, size: float) -> bool:
    """Floats may have been computed in float32 and another order: a sum that comes out tiny is no
    more exact than usual ones."""
    if isinstance(a, float) and isinstance(b, float):
        if not (math.isfinite(a) and math.isfinite(b)):
            return a == b or (math.isnan(a) and math.isnan(b))
        usual = size if math.isfinite(size) else 0.0
        return abs(a - b) <= (_RELATIVE * max(abs(a), usual) or _LEAST)
    return type(a) is type(b) and a == b


def _shown(value: Any) -> str:
    """Shortened: a candidate's text may be as long as a reply."""
    if isinstance(value, str) and len(value) > _SHOWN_CHARS:
        return f"{value[:_SHOWN_CHARS]!r}…"
    return repr(value)


def _name(tree: Tree) -> str:
    match tree:
        case TensorAt():
            return "a tensor"
        case Plain(value=value):
            return f"{type(value).__name__} {_shown(value)}"[:80]
        case Sequence(kind=kind, items=items):
            return f"a {kind} of {len(items)}"
        case Mapping(keys=keys):
            return f"a dict of {len(keys)}"
    return "an object"
