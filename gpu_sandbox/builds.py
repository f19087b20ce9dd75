"""Finished builds, content-addressed, shared between evaluations and processes.

A build is made by an untrusted compile child, stored by the engine from descriptors, and
only ever read by untrusted workers of the very same source: the key covers everything that
decides what comes out. Entries appear whole (a rename) and are never changed; a worker gets
descriptors of its own entry's files and sees no other.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from events.outcomes import KernelResources

__all__ = ["BuildCache", "BuildFiles", "BuildRecord"]

_MAX_ENTRY_BYTES = 512 << 20
_RECORD = "record.json"
_NAME = re.compile(r"manifest\.json|[0-9a-f]{24}/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}\.so")


class BuildRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a build besides its files: what its kernels take, and for each line of
    a generated file (``DIGEST/main.cpp``) the candidate's, or 0. The compile child's word."""

    resources: list[KernelResources] = []
    lines: dict[str, list[int]] = {}


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

    def fetch(self, key: str) -> BuildFiles | None:
        """The entry's files, open for reading; the caller closes them. None: no entry."""
        entry = self._root / key
        if not entry.is_dir():
            return None
        with suppress(OSError):
            os.utime(entry)
        return BuildFiles.of(entry)

    def store(
        self,
        key: str,
        names: list[str],
        fds: list[int],
        record: BuildRecord,
    ) -> BuildFiles | None:
        """Keep a build. The names and the files are the candidate's word: names that would
        lead elsewhere, or more bytes than a build has, and nothing is kept: then None."""
        fresh = self._root / f".{key}.{os.getpid()}.{os.urandom(4).hex()}"
        fresh.mkdir(parents=True)
        try:
            left = _MAX_ENTRY_BYTES
            for name, fd in zip(names, fds, strict=True):
                if not _NAME.fullmatch(name) or not stat.S_ISREG(os.fstat(fd).st_mode):
                    return None
                target = fresh / name
                target.parent.mkdir(exist_ok=True)
                left -= _copy(fd, target, left)
                if left < 0:
                    return None
            (fresh / _RECORD).write_bytes(msgspec.json.encode(record))
            with suppress(OSError):
                fresh.rename(self._root / key)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return self.fetch(key)


class BuildFiles:
    """Open files of one build, as ``names`` relative to the extensions directory."""

    def __init__(self, names: list[str], fds: list[int], record: BuildRecord | None = None) -> None:
        self.names = names
        self.fds = fds
        self.record = record or BuildRecord()

    @classmethod
    def of(cls, entry: Path) -> BuildFiles:
        beside = entry / _RECORD
        paths = sorted(p for p in entry.rglob("*") if p.is_file() and p != beside)
        record = msgspec.json.decode(beside.read_bytes(), type=BuildRecord)
        fds = [os.open(p, os.O_RDONLY | os.O_CLOEXEC) for p in paths]
        return cls([str(p.relative_to(entry)) for p in paths], fds, record)

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.names, self.fds = [], []


def _copy(fd: int, target: Path, most: int) -> int:
    """Bytes copied; more than ``most`` when there was more."""
    copied = 0
    with open(target, "wb") as writer:
        while copied <= most and (chunk := os.pread(fd, 1 << 20, copied)):
            writer.write(chunk)
            copied += len(chunk)
    return copied
