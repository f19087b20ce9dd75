"""Files that compilers leave in a candidate's home: packed where it is prepared, laid out where it
is judged, both in its own processes."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpu_sandbox.languages import languages_and_compilers

_MOST_BYTES, _MOST_FILES = 256 << 20, 20_000
_NOT_KEPT = frozenset({"tmp", "candidate.py", "task.py"})


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
    """Unpack it, as far as it can be read: else it is compiled again."""
    compilers = languages_and_compilers()
    with suppress(Exception):
        with zipfile.ZipFile(archive) as file:
            if file.comment == os.fsencode(home):
                file.extractall(home)
                return
            bound = tuple(prefix for compiler in compilers for prefix in compiler.bound_to_home)
            file.extractall(home, [n for n in file.namelist() if not n.startswith(bound)])
        for compiler in compilers:
            for pattern, relocate in compiler.relocate.items():
                for path in home.rglob(pattern):
                    with suppress(Exception):
                        path.write_text(relocate(path.read_text(), path.parent))
