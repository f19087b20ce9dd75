"""Finished builds, content-addressed, shared between evaluations and processes.

A build is written by an untrusted compile child and only ever read by untrusted workers
of the very same source: the key covers everything that decides what comes out. Entries
appear whole (a rename) and are never changed; each user gets a private copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["BuildCache"]

_MAX_ENTRY_BYTES = 512 << 20
_MANIFEST = "manifest.json"


class BuildCache:
    """Directories ``root/KEY`` that hold libraries and the manifest that names them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @staticmethod
    def key(*parts: str) -> str:
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()[:32]

    def fetch(self, key: str, into: Path) -> bool:
        """Copy the entry to ``into``; False if there is none."""
        entry = self._root / key
        if not entry.is_dir():
            return False
        shutil.copytree(entry, into, dirs_exist_ok=True)
        with suppress(OSError):
            os.utime(entry)
        return True

    def store(self, key: str, source: Path) -> None:
        """Keep what ``source`` holds of libraries and manifest. A second writer loses."""
        fresh = self._root / f".{key}.{os.getpid()}.{os.urandom(4).hex()}"
        fresh.mkdir(parents=True)
        try:
            total = 0
            for path in _keepable(source):
                total += path.lstat().st_size
                if total > _MAX_ENTRY_BYTES:
                    return
                target = fresh / path.relative_to(source)
                target.parent.mkdir(exist_ok=True)
                _copy_regular(path, target)
            with suppress(OSError):
                fresh.rename(self._root / key)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _keepable(source: Path) -> Iterator[Path]:
    """Plain files only: the source directory is the candidate's, links may point anywhere."""
    manifest = source / _MANIFEST
    candidates = [manifest, *(p for d in _plain_directories(source) for p in d.glob("*.so"))]
    for path in candidates:
        with suppress(OSError):
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _plain_directories(source: Path) -> list[Path]:
    return [p for p in source.iterdir() if p.is_dir() and not p.is_symlink()]


def _copy_regular(source: Path, target: Path) -> None:
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as reader, open(target, "wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
