"""What one look at this machine found."""

from __future__ import annotations

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ok: bool
    needed: bool
    detail: str
    """What was seen: a version, or how it failed. One line."""
    fix: str = ""
    """What to do about it; empty when nothing need or can be done."""
