"""Cache of finished builds, shared between evaluations and processes.

A build is made by an untrusted compile child, stored by the engine from descriptors, and only
read by untrusted workers of the very same source. Entries appear and vanish whole, by a rename,
and never change; several engines may use the cache at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from events.outcomes import KernelResources
from gpu_sandbox.ipc.child_messages import MAX_BUILT
from gpu_sandbox.store.best_effort import Keeping

CACHE_BYTES = 10 << 30

_MAX_ENTRY_BYTES = 512 << 20
_MAX_ADDED_BYTES = 272 << 20  # 256 MB of compilers' caches and 20,000 names, in memory
_RECORD = "record.json"
_UNCHECKED, _PRUNED = 0.05, 0.9  # shares of the bound: stored between prunings, left by one
_LEFTOVER_S = 3600.0
_MAX_KERNELS = 16
_MAX_LINES = 50_000
_MAX_NAME = 200
_MAX_FIGURE = 1 << 40  # bytes or registers of one kernel
_NAME = re.compile(r"manifest\.json|[0-9a-f]{24}/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}\.so")


class BuildRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Of a build, by the untrusted compile child: resources of its kernels, and for each line of
    a generated file (``DIGEST/main.cpp``) the candidate's line, or 0."""

    resources: list[KernelResources] = []
    lines: dict[str, list[int]] = {}

    @classmethod
    def of(cls, resources: list[KernelResources], lines: dict[str, list[int]]) -> BuildRecord:
        """Bounded, printable and with plausible figures: logs keep them."""
        kernels = [_on_a_line(one) for one in resources[:_MAX_KERNELS] if _is_plausible(one)]
        are_few = len(lines) <= 2 * MAX_BUILT and sum(map(len, lines.values())) < _MAX_LINES
        are_short = all(len(name) <= _MAX_NAME for name in lines)
        return cls(resources=kernels, lines=lines if are_few and are_short else {})


def _is_plausible(one: KernelResources) -> bool:
    figures = (value for value in msgspec.structs.astuple(one) if isinstance(value, int))
    return all(0 <= figure <= _MAX_FIGURE for figure in figures)


def _on_a_line(one: KernelResources) -> KernelResources:
    name = "".join(c if c.isprintable() else " " for c in one.kernel[:_MAX_NAME])
    return msgspec.structs.replace(one, kernel=name)


class BuildCache:
    """Directories ``root/KEY`` of libraries and the manifest that names them, together at most
    ``most_bytes`` and a twentieth. What can't be written is not kept."""

    def __init__(
        self, root: Path, most_bytes: int = CACHE_BYTES, keeping: Keeping | None = None
    ) -> None:
        self._root = root
        self._keeping = keeping or Keeping(root)
        self._most_bytes = most_bytes
        self._stored_bytes = 0

    @staticmethod
    def key(*parts: str) -> str:
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()[:32]

    def fetch(self, key: str) -> BuildFiles | None:
        """The entry's files, which the caller closes; None without an entry."""
        entry = self._root / key
        files: BuildFiles | None = None
        try:
            os.utime(entry)  # used now
            before = entry.stat().st_ino
            files = BuildFiles.of(entry)
            if entry.stat().st_ino == before:
                return files
        except OSError:
            pass  # pruned meanwhile, if it was there at all
        except msgspec.MsgspecError:
            self._discard(entry)  # damaged: it is built anew
        if files is not None:
            files.close()
        return None

    def store(
        self,
        key: str,
        names: list[str],
        fds: list[int],
        record: BuildRecord,
    ) -> BuildFiles | None:
        """Keep a build of untrusted names and files. None for names that lead elsewhere, or too
        many bytes. What can't be written is returned from memory."""
        for name, fd in zip(names, fds, strict=True):
            if not _NAME.fullmatch(name) or not _is_readable_file(fd):
                return None
        with self._keeping:
            if not self._stored(key, names, fds, record):
                return None
            files = self.fetch(key)
            if self._stored_bytes > _UNCHECKED * self._most_bytes:
                self.prune()
            return files
        return BuildFiles.in_memory(names, fds, record)

    def _stored(self, key: str, names: list[str], fds: list[int], record: BuildRecord) -> bool:
        """False if they are too large. Raises ``OSError``."""
        fresh = self._root / f".{key}.{os.getpid()}.{os.urandom(4).hex()}"
        fresh.mkdir(parents=True)
        try:
            left = _MAX_ENTRY_BYTES
            for name, fd in zip(names, fds, strict=True):
                target = fresh / name
                target.parent.mkdir(exist_ok=True)
                left -= _copy(fd, target, left)
                if left < 0:
                    return False
            left -= _written(fresh / _RECORD, msgspec.json.encode(record))
            with suppress(OSError):
                fresh.rename(self._root / key)
                self._stored_bytes += _MAX_ENTRY_BYTES - left
            return True
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    @property
    def grown(self) -> bool:
        """Whether something was stored since the last pruning."""
        return self._stored_bytes > 0

    def size(self) -> tuple[int, int]:
        """Entries, and their bytes together."""
        sizes = [size for _, size, _ in self._entries()]
        return len(sizes), sum(sizes)

    def prune(self) -> int:
        """Drop the least recently used entries beyond the bound. Returns how many."""
        self._stored_bytes = 0
        entries = sorted(self._entries())
        total, dropped = sum(size for _, size, _ in entries), 0
        if total > self._most_bytes:
            for _, size, entry in entries:
                if total <= _PRUNED * self._most_bytes:
                    break
                dropped += self._discard(entry)
                total -= size
        self._drop_leftovers()
        return dropped

    def _discard(self, entry: Path) -> bool:
        """False if another engine was faster."""
        gone = self._root / f".{entry.name}.gone.{os.urandom(4).hex()}"
        try:
            entry.rename(gone)
        except OSError:
            return False
        shutil.rmtree(gone, ignore_errors=True)
        return True

    def _entries(self) -> list[tuple[float, int, Path]]:
        """Time of last use, size, path."""
        found = []
        for entry in self._root.glob("[!.]*"):
            with suppress(OSError):
                sizes = [p.stat().st_size for p in entry.rglob("*") if p.is_file()]
                found.append((entry.stat().st_mtime, sum(sizes), entry))
        return found

    def _drop_leftovers(self) -> None:
        """Left by engines that were killed while they stored or dropped."""
        for path in self._root.glob(".*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _LEFTOVER_S:
                    shutil.rmtree(path, ignore_errors=True)


class BuildFiles:
    """Open files of one build, as ``names`` relative to the extensions directory."""

    def __init__(self, names: list[str], fds: list[int], record: BuildRecord | None = None) -> None:
        self.names = names
        self.fds = fds
        self.record = record or BuildRecord()
        self.added_bytes = 0
        """Of files that were added, in memory."""

    @classmethod
    def of(cls, entry: Path) -> BuildFiles:
        beside = entry / _RECORD
        paths = sorted(p for p in entry.rglob("*") if p.is_file() and p != beside)
        files = cls([], [], msgspec.json.decode(beside.read_bytes(), type=BuildRecord))
        try:
            for path in paths:
                files.fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                files.names.append(str(path.relative_to(entry)))
        except OSError:
            files.close()
            raise
        return files

    @classmethod
    def in_memory(cls, names: list[str], fds: list[int], record: BuildRecord) -> BuildFiles | None:
        """Copies of ``fds`` that nothing on a disk holds; None if they are too large."""
        files, left = cls([], [], record), _MAX_ENTRY_BYTES
        try:
            for name, fd in zip(names, fds, strict=True):
                own, bytes_ = _copy_in_memory(fd, left)
                left -= bytes_
                files.fds.append(own)
                files.names.append(name)
        except OSError:
            left = -1
        if left < 0:
            files.close()
            return None
        return files

    def add(self, name: str, fd: int) -> None:
        """Add a copy of an untrusted file, unless it is too large. Raises ``OSError``."""
        if not _is_readable_file(fd):
            return
        own, bytes_ = _copy_in_memory(fd, _MAX_ADDED_BYTES)
        if bytes_ > _MAX_ADDED_BYTES:
            os.close(own)
            return
        self.names.append(name)
        self.fds.append(own)
        self.added_bytes += bytes_

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.names, self.fds, self.added_bytes = [], [], 0


def _is_readable_file(fd: int) -> bool:
    how = fcntl.fcntl(fd, fcntl.F_GETFL)
    readable = how & os.O_ACCMODE != os.O_WRONLY and not how & os.O_PATH
    return readable and stat.S_ISREG(os.fstat(fd).st_mode)


def _copy_in_memory(fd: int, most: int) -> tuple[int, int]:
    """A descriptor to read a copy by, and what ``_copy`` says. Raises ``OSError``."""
    written = os.memfd_create("build", os.MFD_CLOEXEC)
    try:
        copied = _copy(fd, written, most)
        return os.open(f"/proc/self/fd/{written}", os.O_RDONLY | os.O_CLOEXEC), copied
    finally:
        os.close(written)


def _copy(fd: int, target: Path | int, most: int) -> int:
    """Bytes copied; more than ``most`` when there was more. A descriptor stays open."""
    copied = 0
    with open(target, "wb", closefd=not isinstance(target, int)) as writer:
        while copied <= most and (chunk := os.pread(fd, 1 << 20, copied)):
            writer.write(chunk)
            copied += len(chunk)
        _settled(writer)
    return copied


def _written(target: Path, data: bytes) -> int:
    with open(target, "wb") as writer:
        writer.write(data)
        _settled(writer)
    return len(data)


def _settled(writer: BinaryIO) -> None:
    """On the disk before the entry gets its name: a torn library would blame a candidate."""
    writer.flush()
    os.fsync(writer.fileno())
