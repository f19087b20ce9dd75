"""What each recorded log is, and what its replay comes to; written once, with the log."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

__all__ = ["HERE", "PINS", "Pin", "read_pins"]

HERE = Path(__file__).parent
PINS = HERE / "pins.toml"


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``head`` is the hash of the newest event; ``digest`` the state's after all of them."""

    head: str
    decisions: int
    digest: str


def read_pins() -> dict[str, Pin]:
    """By the log's name without ``.db``."""
    return msgspec.convert(tomllib.loads(PINS.read_text()), dict[str, Pin])
