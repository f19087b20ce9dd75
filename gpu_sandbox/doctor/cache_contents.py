"""What a sandbox's cache holds, kind by kind: counted, dated, and emptied.

Links are never followed: one that lies in the cache is removed, and what it leads to is left. An
engine that is running loses nothing it has open, and makes anew what it looks up next. What may
be in use by name is left: half-written files, and headers that a compiler was given lately.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from gpu_sandbox.api.timestamps import utc_of
from gpu_sandbox.devices.peak_rates import KeptCeilings
from gpu_sandbox.evaluate.baselines import KeptBaseline

__all__ = [
    "HOLDING_KINDS", "Figure", "Holding", "HoldingKind", "empty", "holding", "older_caches",
]  # fmt: skip

HoldingKind: TypeAlias = Literal[
    "baselines", "ceilings", "verdicts", "builds", "prebuilt", "facts", "isolation",
]  # fmt: skip
"""The cache's directories, by name: measured figures first."""
HOLDING_KINDS: tuple[HoldingKind, ...] = get_args(HoldingKind)

HALF_WRITTEN_S = 3600.0  # younger files with a dot before their name may be written right now
LATELY_USED_S = 900.0  # a compiler may still read what it was given by name; builds end sooner
_CACHE = re.compile(r"sandbox(-[0-9]+)?")
_NESTED = {"baselines", "verdicts"}
"""Kinds whose files lie on shelves."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A kept baseline, or a device's ceilings."""

    what: str
    device: str
    measured_at: str
    runtime_ms: float | None = None
    bytes_per_s: float | None = None
    flops_per_s: dict[str, float] = {}


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. ``oldest`` and ``newest``, in UTC, are when figures were measured, and of the
    others when they were used last; null if there are none. ``link``: its directory is a link,
    and what it leads to is not looked at. ``removed`` and ``left`` are of ``empty``."""

    kind: HoldingKind
    place: str
    number: int = 0
    bytes: int = 0
    oldest: str | None = None
    newest: str | None = None
    figures: list[Figure] = []
    link: bool = False
    removed: int | None = None
    left: int | None = None


def holding(cache: Path, kind: HoldingKind) -> Holding:
    """What there is of ``kind``. What can't be read is not counted."""
    place = cache / kind
    if place.is_symlink():
        return Holding(kind=kind, place=str(place), link=True)
    entries = [entry for entry in _entries(place, kind) if not entry.name.startswith(".")]
    figures = [figure for entry in entries if (figure := _figure(entry, kind)) is not None]
    dates = [figure.measured_at for figure in figures if figure.measured_at]
    if kind not in _FIGURES:
        dates = [utc_of(_used_at(entry)) for entry in entries]
    return Holding(
        kind=kind,
        place=str(place),
        number=len(entries),
        bytes=sum(map(_size, entries)),
        oldest=min(dates, default=None),
        newest=max(dates, default=None),
        figures=sorted(figures, key=lambda figure: figure.measured_at),
    )


def older_caches(cache: Path) -> dict[Path, int]:
    """Caches of earlier formats beside ``cache``, which this engine does not look into, with
    their bytes."""
    return {
        place: _size(place)
        for place in _listed(cache.parent)
        if _CACHE.fullmatch(place.name)
        and place != cache
        and place.is_dir()
        and not place.is_symlink()
    }


def empty(cache: Path, kind: HoldingKind) -> Holding:
    """Remove all of ``kind``, and say what there was."""
    before = holding(cache, kind)
    if before.link:
        return msgspec.structs.replace(before, removed=0, left=0)
    removed = left = 0
    for entry in _entries(cache / kind, kind):
        counts = not entry.name.startswith(".")
        gone = not _in_use(entry, kind) and _removed(entry)
        removed += counts and gone
        left += counts and not gone
    return msgspec.structs.replace(before, removed=removed, left=left)


def _entries(place: Path, kind: HoldingKind) -> Iterator[Path]:
    """Of one kind: files, directories and links as they lie there, half-written ones too."""
    for entry in _listed(place):
        if kind in _NESTED and entry.is_dir() and not entry.is_symlink():
            yield from _listed(entry)
        else:
            yield entry


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _size(entry: Path) -> int:
    return sum(found.st_size for found in _stats(entry) if stat.S_ISREG(found.st_mode))


def _used_at(entry: Path) -> float:
    return max((found.st_mtime for found in _stats(entry)), default=0.0)


def _stats(entry: Path) -> Iterator[os.stat_result]:
    """Of it and all that it holds, without following links."""
    with suppress(OSError):
        yield entry.lstat()
    if not entry.is_symlink():
        for directory, folders, files in os.walk(entry, followlinks=False):
            for name in (*folders, *files):
                with suppress(OSError):
                    yield os.lstat(os.path.join(directory, name))


def _in_use(entry: Path, kind: HoldingKind) -> bool:
    age_s = time.time() - _used_at(entry)
    if entry.name.startswith("."):
        return age_s < HALF_WRITTEN_S
    return kind == "prebuilt" and age_s < LATELY_USED_S


def _removed(entry: Path) -> bool:
    """A directory vanishes whole: whoever looks it up finds all of it, or nothing."""
    try:
        if entry.is_symlink() or not entry.is_dir():
            entry.unlink()
            return True
        gone = entry.with_name(f".{entry.name}.gone.{secrets.token_hex(4)}")
        entry.rename(gone)
    except OSError:
        return False
    shutil.rmtree(gone, ignore_errors=True)
    return True


def _figure(entry: Path, kind: HoldingKind) -> Figure | None:
    read = _FIGURES.get(kind)
    if read is None or entry.is_symlink():
        return None
    with suppress(OSError, msgspec.MsgspecError):
        return read(entry.read_bytes())
    return None


def _baseline(data: bytes) -> Figure:
    kept = msgspec.json.decode(data, type=KeptBaseline)
    found = kept.baseline
    return Figure(
        what=f"{kept.task_name} {found.kind} {kept.protocol}",
        device=_device(found.conditions.get("device"), found.conditions.get("device_name")),
        measured_at=found.measured_at,
        runtime_ms=found.runtime_ms,
    )


def _ceilings(data: bytes) -> Figure:
    kept = msgspec.json.decode(data, type=KeptCeilings)
    found = kept.ceilings
    return Figure(
        what="ceilings",
        device=kept.device,
        measured_at=found.measured_at,
        bytes_per_s=found.bytes_per_s,
        flops_per_s=found.flops_per_s,
    )


def _device(name: object, model: object) -> str:
    return f"{name} ({model})" if model else str(name)


_FIGURES: dict[HoldingKind, Callable[[bytes], Figure]] = {
    "baselines": _baseline,
    "ceilings": _ceilings,
}
