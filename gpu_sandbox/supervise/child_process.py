"""A trusted child process: started clean, drained, and surely ended.

It leads its own process group and inherits only named descriptors and an allow-list of variables.
When ``child()`` exits, the group and all that carry the run's token are dead and reaped; when the
engine is killed, the kernel kills the group through the watch pipe (``zygote/boot.py``).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from gpu_sandbox.api.limits import Limits

TOKEN = "GPU_SANDBOX_RUN"
_BOOT = Path(__file__).parents[1] / "zygote" / "boot.py"
_TERM_S = 0.2


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """``main`` of a module, with its arguments."""

    module: str
    arguments: dict[str, Any]
    directory: Path
    environment: Mapping[str, str]
    token: str
    limits: Limits


class Output:
    """What a child prints, of which the first and the last half of ``limit`` are kept. Takes
    over ``pipe``, the non-blocking reading end."""

    def __init__(self, pipe: int, limit: int) -> None:
        self._pipe = pipe
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._drained = anyio.Event()

    def text(self) -> str:
        middle = f"\n… {self._dropped} bytes dropped …\n".encode() if self._dropped else b""
        return (bytes(self._head) + middle + bytes(self._tail)).decode("utf-8", "replace")

    async def drain(self) -> None:
        """Until all writers have closed it, or it can't be waited for: the kernel limits a user's
        waits, and candidates may be the same user."""
        try:
            with suppress(OSError):
                while chunk := await self._chunk():
                    self._keep(chunk)
                    await anyio.lowlevel.checkpoint()  # some never stop printing
        finally:
            os.close(self._pipe)
            self._drained.set()

    async def drained_within(self, seconds: float) -> None:
        """A descendant that escaped may hold the pipe open for ever."""
        with anyio.move_on_after(seconds):
            await self._drained.wait()

    async def _chunk(self) -> bytes:
        while True:
            try:
                return os.read(self._pipe, 65536)
            except BlockingIOError:
                await anyio.wait_readable(self._pipe)

    def _keep(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > self._half:
            self._dropped += len(self._tail) - self._half
            del self._tail[: -self._half]


class Child:
    """A running child. ``output()`` is what it printed, cut to the limit."""

    def __init__(self, popen: subprocess.Popen[bytes], limit: int) -> None:
        assert popen.stdout is not None
        self._popen = popen
        self._output = Output(os.dup(popen.stdout.fileno()), limit)
        popen.stdout.close()
        self._pidfd = os.pidfd_open(popen.pid)
        self.returncode: int | None = None

    def output(self) -> str:
        return self._output.text()

    async def drain(self) -> None:
        await self._output.drain()

    async def drained_within(self, seconds: float) -> None:
        await self._output.drained_within(seconds)

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended it, if one did."""
        code = self.returncode
        return -code if code is not None and code < 0 else None

    async def exited(self) -> None:
        """Wait for its death without reaping: its group id stays ours until ``end``."""
        await anyio.wait_readable(self._pidfd)

    async def exited_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.exited()
            return True
        return False

    async def end(self, *, politely: bool = True) -> None:
        """Kill the group, reap the leader. Safe to call on the dead; never raises."""
        if self.returncode is not None:
            return
        with anyio.CancelScope(shield=True):
            if politely and not await self.exited_within(0):
                self._signal_group(signal.SIGTERM)
                await self.exited_within(_TERM_S)
            self._signal_group(signal.SIGKILL)
            await self.exited()
            self.returncode = self._popen.wait()

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    def close(self) -> None:
        os.close(self._pidfd)


@asynccontextmanager
async def child(spec: Spec, *fds: int) -> AsyncIterator[Child]:
    """Start a child with ``fds`` inherited under their own numbers; end it on the way out.

    The caller keeps, and closes, its own copies of ``fds``.
    """
    watch_read, watch_write = os.pipe2(os.O_CLOEXEC)
    try:
        running = _start(spec, watch_read, fds)
    finally:
        os.close(watch_read)
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as drainers:
            drainers.start_soon(running.drain)
            try:
                yield running
            except Exception as error:  # kept out of the group, which would wrap it
                failure = error
            finally:
                await running.end()
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(sweep, spec.token)
                    await running.drained_within(_TERM_S)
                drainers.cancel_scope.cancel()
    finally:
        os.close(watch_write)
        running.close()
    if failure is not None:
        raise failure


def _start(spec: Spec, watch: int, fds: tuple[int, ...]) -> Child:
    boot = {
        "module": spec.module,
        "arguments": spec.arguments,
        "watch": watch,
        "path": [entry for entry in sys.path if entry] or [os.getcwd()],
        "rlimits": {"RLIMIT_CORE": 1},  # see confine/apply_layers.py
    }
    flags = ["-I", "-X", "faulthandler", "-B", "-u"]  # what it printed survives a kill
    popen = subprocess.Popen(
        [sys.executable, *flags, str(_BOOT), json.dumps(boot)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        close_fds=True,
        pass_fds=(watch, *fds),
        cwd=spec.directory,
        env={**spec.environment, TOKEN: spec.token},
        start_new_session=True,
    )
    assert popen.stdout is not None
    os.set_blocking(popen.stdout.fileno(), False)
    return Child(popen, spec.limits.output_bytes)


def sweep(token: str) -> int:
    """Kill processes that left the group and carry the run's token. Returns how many. Repeats
    while there are any, because a fork may have raced with the scan."""
    mark = f"{TOKEN}={token}".encode()
    killed = 0
    for _ in range(20):
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        found = [pid for pid in pids if pid != os.getpid() and _carries(pid, mark)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed += len(found)
        if not found:
            break
    return killed


def _carries(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False
