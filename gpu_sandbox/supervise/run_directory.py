"""Private directories of one sandbox, and removal of those that a killed engine left.

The owner holds a ``flock`` on ``owner.lock`` inside: one that can be locked is left over.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import secrets
import shutil
import stat
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec

from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.toolchain.environment import tool_environment

_LOCK = "owner.lock"
_YOUNG_S = 60.0


_numbers = itertools.count(1)


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

    def new_home(self, kind: str) -> Path:
        """A private home that no other process has had. Raises ``SandboxFault``."""
        name = f"{kind}-{next(_numbers)}"
        try:
            return self.home(name)
        except BaseException:
            remove(self.path / name)
            raise

    def write(self, name: str, source: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8", errors="surrogatepass")
        return path


def own_directory(path: Path) -> Path:
    """Make it if it is absent. Raises ``OSError`` where it is a link or another user's, who could
    replace what is in it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{path} is somebody else's, or no directory")
    if found.st_mode & 0o022:
        path.chmod(0o700)
    return path


@asynccontextmanager
async def run_directory(parent: Path) -> AsyncIterator[RunDirectory]:
    """Below ``parent``. It gets its name when it is locked."""
    token = secrets.token_hex(8)
    own_directory(parent)
    fresh, path = parent / f".{token}", parent / token
    fresh.mkdir(mode=0o700)
    lock = os.open(fresh / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fresh.rename(path)
    try:
        yield RunDirectory(path, token)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove, path)
        os.close(lock)


def remove(path: Path) -> None:
    """Delete it, however deep a candidate made it, and whatever permissions it took away. What is
    left all the same goes with its parent, or when the next engine starts."""
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        words = [*command, "--", str(path)]
        with suppress(OSError):  # no process, or no descriptor, is left
            subprocess.run(words, check=False, capture_output=True, env=tool_environment())


def remove_stale(parent: Path) -> int:
    """Delete the directories of engines that died. Returns how many."""
    removed = 0
    for path in parent.iterdir() if parent.is_dir() else ():
        if path.name.startswith(".") and _is_young(path):
            continue  # somebody is about to lock it
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


def _is_young(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime < _YOUNG_S
    except OSError:
        return True  # it has its name by now
