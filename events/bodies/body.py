"""The base of all event bodies, and the table of their wire names."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, TypeVar

import msgspec

__all__ = [
    "BODIES",
    "Body",
    "Kind",
    "Role",
    "event",
]

Kind = Literal["in", "decision", "meta"]
Role = str


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all event bodies.

    The ones that a search has most of, and that no replay compares, leave out what is at its
    default (``omit_defaults``): their defaults are part of the format, and never change.
    """

    TYPE: ClassVar[str] = ""
    KIND: ClassVar[Kind] = "meta"
    VER: ClassVar[int] = 1


BODIES: dict[str, type[Body]] = {}

_B = TypeVar("_B", bound=type[Body])


def event(name: str, kind: Kind, ver: int = 1) -> Callable[[_B], _B]:
    """Register a body under its wire name; the class may be renamed, the name may not."""

    def register(cls: _B) -> _B:
        cls.TYPE, cls.KIND, cls.VER = name, kind, ver
        if name in BODIES:
            raise ValueError(f"two bodies claim the wire name {name!r}")
        BODIES[name] = cls
        return cls

    return register
