"""What each recorded log is, and what its replay comes to; written once, with the log."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from events.reader import LogReader

__all__ = ["HERE", "PINS", "Pin", "histories", "read_pins"]

HERE = Path(__file__).parent
PINS = HERE / "pins.toml"


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``head`` is the hash of the newest event; ``digest`` the state's after all of them."""

    head: str
    decisions: int
    digest: str


def histories() -> dict[str, tuple[Path, int]]:
    """Every recorded run: the log's name without ``.db``, with ``#RUN`` where a log has several
    → its log and its number there."""
    return {name: place for path in sorted(HERE.glob("*.db")) for name, place in _runs(path)}


def _runs(path: Path) -> list[tuple[str, tuple[Path, int]]]:
    with LogReader(path) as reader:
        runs = [run.run_id for run in reader.runs()]
    return [(path.stem if runs == [1] else f"{path.stem}#{run}", (path, run)) for run in runs]


def read_pins() -> dict[str, Pin]:
    """By the same names."""
    return msgspec.convert(tomllib.loads(PINS.read_text()), dict[str, Pin])
