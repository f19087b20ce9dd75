"""Directories that a sandbox gave to candidates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["of_candidates"]

_WORKER = re.compile(r"(worker-.*)-(\d+)")


def of_candidates(runs: Iterable[Path], *, waiting: bool) -> list[Path]:
    """Those that are there still, in sandboxes' directories. With ``waiting`` but for the newest
    of each device: the next candidate's worker waits in it."""
    return [home for run in runs if run.is_dir() for home in _of(run, waiting)]


def _of(run: Path, waiting: bool) -> list[Path]:
    theirs = [p for p in run.iterdir() if p.name.startswith(("worker", "compile", "autopsy"))]
    newest: dict[str, tuple[int, Path]] = {}
    for home in theirs:
        if waiting and (found := _WORKER.fullmatch(home.name)):
            numbered = (int(found[2]), home)
            newest[found[1]] = max(newest.get(found[1], numbered), numbered)
    return [home for home in theirs if home not in {home for _, home in newest.values()}]
