"""Private directories, and the sweeping-up after a killed engine.

A run directory lives as long as its sandbox. Its owner holds a ``flock`` on
``owner.lock`` inside, so whatever can be locked belongs to a dead engine and is removed.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec

from gpu_sandbox.port import SandboxFault
from gpu_sandbox.process import tool_environment

__all__ = ["RunDirectory", "remove", "remove_stale", "run_directory"]

_LOCK = "owner.lock"


class RunDirectory(msgspec.Struct, frozen=True):
    """``path`` is ours alone; ``token`` marks every process that belongs to it."""

    path: Path
    token: str

    def home(self, name: str) -> Path:
        """A private home with its temp and caches, made on demand. Raises ``SandboxFault``."""
        home = self.path / name
        try:
            for inner in ("tmp", "cache"):
                (home / inner).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SandboxFault(
                f"no private directory can be made ({error}): make room, or set TMPDIR elsewhere"
            ) from error
        return home

    def write(self, name: str, source: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8", errors="surrogatepass")
        return path


@asynccontextmanager
async def run_directory(parent: Path) -> AsyncIterator[RunDirectory]:
    token = secrets.token_hex(8)
    path = parent / token
    path.mkdir(parents=True, mode=0o700)
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield RunDirectory(path, token)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove, path)
        os.close(lock)


def remove(path: Path) -> None:
    """Delete it, however deep a candidate made it, and whatever permissions it took away."""
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        words = [*command, "--", str(path)]
        subprocess.run(words, check=False, capture_output=True, env=tool_environment())


def remove_stale(parent: Path) -> int:
    """Delete the directories of engines that died. Returns how many."""
    removed = 0
    for path in parent.iterdir() if parent.is_dir() else ():
        try:
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
            removed += 1
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    return removed
