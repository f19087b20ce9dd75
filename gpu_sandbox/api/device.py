"""A device's names. Pure: what kinds there are is said in ``backends/``."""

from __future__ import annotations

import msgspec


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is the user's. A child sees this device only, as ``inside``; ``visible`` is what
    the variable of its backend says then."""

    name: str
    inside: str
    visible: str
