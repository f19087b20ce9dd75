"""Directories that a sandbox gave to candidates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["of_candidates"]

_WORKER = re.compile(r"((?:worker|reference)-.*)-(\d+)")
_ROLES = ("worker", "reference", "compile", "autopsy")


def of_candidates(runs: Iterable[Path], *, waiting: bool) -> list[Path]:
    """Those that are there still, in sandboxes' directories. With ``waiting`` but for those of the
    processes that live on, the newest of each device: the next candidate's worker, its reference's,
    and the reference's that timed last."""
    return [home for run in runs if run.is_dir() for home in _of(run, waiting)]


def _of(run: Path, waiting: bool) -> list[Path]:
    theirs = [home for home in run.iterdir() if home.name.startswith(_ROLES)]
    numbered: dict[str, list[tuple[int, Path]]] = {}
    for home in theirs:
        if waiting and (found := _WORKER.fullmatch(home.name)):
            numbered.setdefault(found[1], []).append((int(found[2]), home))
    living = {
        home
        for name, homes in numbered.items()
        for _, home in sorted(homes)[-2 if name.startswith("reference") else -1 :]
    }
    return [home for home in theirs if home not in living]
