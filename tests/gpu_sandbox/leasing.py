"""An engine as far as leases go: ``python -m tests.gpu_sandbox.leasing DEVICE [IN_FLIGHT HOLD_S]``

Says ``held`` once it has the device, and keeps it until its input ends. With two more words it
does so many things at once, again and again, each of which holds the device for so long and
leaves it not clear for as long again, and says each time when it began.

``--apart`` goes before: what it makes is for its own user only, by umask, and files of others in
a sticky directory are refused as by a kernel with ``fs.protected_regular``, which this one's
setting may leave out.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.devices.lease import Leases
from tests.gpu_sandbox.users import UNABLE

__all__ = ["Another", "another", "is_free", "protecting"]

ROOT = Path(__file__).parents[2]


class Another:
    """Another engine, seen from a test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def says(self) -> str:
        """Its next line. Skips the test where another user can't be had."""
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if (not said and self._process.wait() == UNABLE) or said.startswith("needs a mount"):
            pytest.skip(said)
        return said

    def kill(self) -> str:
        """What it said until then."""
        self._process.kill()
        return self._process.communicate()[0]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)


@contextmanager
def another(*words: str, through: tuple[str, ...] = (), **environment: str) -> Iterator[Another]:
    """For a minute at most. ``through`` goes before its own words, after the interpreter."""
    with subprocess.Popen(
        [sys.executable, *through, "-m", "tests.gpu_sandbox.leasing", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **environment},
        text=True,
    ) as process:
        starved = threading.Timer(60, process.kill)  # a test that waits for it fails, then
        starved.start()
        try:
            yield Another(process)
        finally:
            starved.cancel()
            process.kill()


async def is_free(leases: Leases, *devices: str, within_s: float = 0.2) -> bool:
    with anyio.move_on_after(within_s):
        async with leases.hold(*devices):
            return True
    return False


def protecting(opened: Callable[..., int]) -> Callable[..., int]:
    """``os.open`` on a kernel with that setting: what is to be made where it is absent, and is
    there, has to be one's own or the directory's owner's."""

    def open_(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & os.O_CREAT and not flags & os.O_EXCL:
            with suppress(FileNotFoundError):
                found, above = os.lstat(path), os.stat(os.path.dirname(path))
                open_to_all = above.st_mode & stat.S_ISVTX and above.st_mode & stat.S_IWOTH
                if open_to_all and found.st_uid not in (os.geteuid(), above.st_uid):
                    raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, flags, *arguments, **options)

    return open_


async def keep(device: str) -> None:
    async with anyio.create_task_group() as group, Leases(group).hold(device):
        print("held", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)


async def work(device: str, in_flight: int, hold_s: float) -> None:
    async with anyio.create_task_group() as group:
        leases = Leases(group)

        async def one() -> None:
            while True:
                async with leases.hold(device) as lease:
                    print(time.monotonic(), flush=True)
                    await anyio.sleep(hold_s)
                    lease.clear = anyio.Event()
                group.start_soon(later, lease.clear)

        async def later(clear: anyio.Event) -> None:
            await anyio.sleep(hold_s)
            clear.set()

        for _ in range(in_flight):
            group.start_soon(one)


def main(words: list[str]) -> None:
    if words[0] == "--apart":
        os.umask(0o077)
        os.open = protecting(os.open)
        words = words[1:]
    try:
        if len(words) == 1:
            anyio.run(keep, words[0])
        else:
            anyio.run(work, words[0], int(words[1]), float(words[2]))
    except* PrerequisiteMissing as missing:
        print(*missing.exceptions, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
