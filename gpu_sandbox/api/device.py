"""A device's names. Pure: what kinds there are is said in ``backends/``."""

from __future__ import annotations

import msgspec

__all__ = ["Device"]


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is the user's; a child sees one device only, as ``inside``, where its backend's
    variable is ``visible``."""

    name: str
    inside: str
    visible: str
