"""Replace one function or constant of the product, in the process that it runs in.

Nothing in the product turns a defence off. Verifier, workers and compile children are forks of a
zygote, so the tests start that by an entry of their own (``zygote.py``), which patches once all is
imported, and before the first fork.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = ["Patch", "apply", "constant", "patched", "target_of"]


class Patch(NamedTuple):
    """``target`` is ``module:name`` or ``module:Class.name``, as its caller looks it up: a function
    that was imported by name is patched in the module that imported it. ``change`` makes what
    stands there from what stood there. ``in_engine``: of the process that runs the tests."""

    target: str
    change: Callable[[Any], Any]
    in_engine: bool = False


def constant(value: Any) -> Callable[[Any], Any]:
    """Whatever was there: a function that returns ``value``, for any arguments."""
    return lambda _: lambda *args, **options: value


def target_of(patch: Patch) -> tuple[Any, str]:
    """What holds the target, and its name there. Raises ``LookupError`` for one that is gone: it
    was renamed, moved or deleted, and the table has to follow."""
    module, _, path = patch.target.partition(":")
    *owners, name = path.split(".")
    try:
        owner: Any = importlib.import_module(module)
        for each in owners:
            owner = getattr(owner, each)
        vars(owner)[name]
    except (ImportError, AttributeError, KeyError) as error:
        raise LookupError(
            f"{patch.target} does not exist ({error!r}): where is this defence now?"
        ) from error
    return owner, name


def apply(patches: Sequence[Patch]) -> list[tuple[Any, str, Any]]:
    """What was there before, in order."""
    before: list[tuple[Any, str, Any]] = []
    for patch in patches:
        owner, name = target_of(patch)
        before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, patch.change(vars(owner)[name]))
    return before


@contextmanager
def patched(patches: Sequence[Patch]) -> Iterator[None]:
    before = apply(patches)
    try:
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)
