"""What compilers leave in a candidate's home: packed where it is prepared, laid out where it is
judged. Both are the candidate's own processes; nobody else reads it."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["lay_out", "packed"]

_MOST_BYTES, _MOST_FILES = 256 << 20, 20_000
_NOT_KEPT = frozenset({"tmp", "candidate.py", "task.py"})
_KEEP_PATHS = ("cache/inductor/fxgraph/", "cache/inductor/aotautograd/")
"""Pickles with absolute paths. In another home inductor would tune their kernels again, and fail
to write down what it found. What it compiled is beside them, and is found by its source."""


def packed(home: Path) -> int | None:
    """The descriptor of an archive of all files below ``home``, but for sources and temporary
    ones. None if they are more than is kept."""
    paths = list(_files(home))
    if len(paths) > _MOST_FILES or sum(path.stat().st_size for path in paths) > _MOST_BYTES:
        return None
    descriptor = os.open(home / "tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with (
        open(descriptor, "wb", closefd=False) as archive,
        zipfile.ZipFile(archive, "w", strict_timestamps=False) as file,
    ):
        file.comment = os.fsencode(home)
        for path in paths:
            file.write(path, path.relative_to(home))
    return descriptor


def _files(home: Path) -> Iterator[Path]:
    for directory, below, names in os.walk(home):
        if Path(directory) == home:
            below[:] = [name for name in below if name not in _NOT_KEPT]
            names = [name for name in names if name not in _NOT_KEPT]
        paths = (Path(directory, name) for name in names)
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def lay_out(archive: Path, home: Path) -> None:
    """Take it apart, and forget what can't be read: it is compiled again then. An archive of
    another making raises a dozen kinds of exceptions, and is no finding, either."""
    with suppress(Exception):
        with zipfile.ZipFile(archive) as file:
            if file.comment == os.fsencode(home):
                file.extractall(home)
                return
            file.extractall(home, [n for n in file.namelist() if not n.startswith(_KEEP_PATHS)])
        for group in home.rglob("__grp__*.json"):
            _move(group)


def _move(group: Path) -> None:
    """Triton's lists of a kernel's files hold absolute paths of the home that it was made in."""
    with suppress(Exception):
        told = json.loads(group.read_text())
        names = told["child_paths"]
        told["child_paths"] = {name: str(group.parent / name) for name in names}
        group.write_text(json.dumps(told))
