"""What each recorded log is, and what its replay comes to; written once, with the log."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from events.reader import LogReader

__all__ = ["HERE", "OLDER", "PINS", "Pin", "histories", "read_pins"]

HERE = Path(__file__).parent
OLDER = sorted((HERE / "0.1").glob("*.db"))
"""Logs that engine 0.1 wrote: read, and not replayed."""
PINS = HERE / "pins.toml"


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``head`` is the hash of the newest event; ``digest`` the state's after all of them."""

    head: str
    decisions: int
    digest: str


def histories(*, older: bool = False) -> dict[str, tuple[Path, int]]:
    """Every recorded run of this format, or of an ``older`` one: the log's name without ``.db``,
    with ``#RUN`` where it has several → its log and its number there."""
    logs = OLDER if older else sorted(HERE.glob("*.db"))
    return {name: place for path in logs for name, place in _runs(path)}


def _runs(path: Path) -> list[tuple[str, tuple[Path, int]]]:
    name = str(path.relative_to(HERE)).removesuffix(".db")
    with LogReader(path) as reader:
        runs = [run.run_id for run in reader.runs()]
    return [(name if runs == [1] else f"{name}#{run}", (path, run)) for run in runs]


def read_pins() -> dict[str, Pin]:
    """By the same names."""
    return msgspec.convert(tomllib.loads(PINS.read_text()), dict[str, Pin])
