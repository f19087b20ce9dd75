"""Memory that the kernel frees when a candidate is gone: nothing is timed beside that."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import msgspec
import pytest

from gpu_sandbox.devices import device_session as session
from gpu_sandbox.devices.device_session import DeviceSession
from gpu_sandbox.devices.kernel_cleanup import settled
from gpu_sandbox.devices.verifier_client import Verifier
from gpu_sandbox.devices.worker_pool import Worker
from gpu_sandbox.ipc.verifier_messages import Job, Report, WorkerSilent

MIB = 1 << 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_what_falls_is_waited_for_and_what_pauses_too() -> None:
    """As others take memory all the while: only a fall counts."""
    seen: Iterator[int] = iter([900, 900, 900, 700, 500, 300, 300, 100, 99, 400, 399, 398, 397, 9])
    assert await settled(held=lambda: next(seen) * MIB, poll_s=0.0)
    assert list(seen) == [9]


@pytest.mark.anyio
async def test_nobody_waits_for_ever() -> None:
    began = time.monotonic()
    falling = iter(range(1 << 40, 0, -(64 * MIB)))
    assert not await settled(0.1, held=lambda: next(falling), poll_s=0.001)
    assert time.monotonic() - began < 2


def shared_bytes() -> int:
    rows = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * next(int(row.split()[1]) for row in rows if row.startswith("Shmem:"))


@pytest.mark.process
@pytest.mark.alone
def test_a_file_that_only_its_own_message_holds_is_gone_then() -> None:
    filled = os.pipe()
    pid = os.fork()
    if pid == 0:
        held = os.memfd_create("held")
        os.posix_fallocate(held, 0, 512 * MIB)
        one, other = socket.socketpair()
        socket.send_fds(one, [b"x"], [held, one.fileno(), other.fileno()])
        os.write(filled[1], b"x")
        signal.pause()
    assert os.read(filled[0], 1) == b"x"
    before = shared_bytes()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    anyio.run(settled)
    assert shared_bytes() < before - 256 * MIB


class AJob(msgspec.Struct):
    worker_pid: int = 0


@pytest.mark.anyio
async def test_the_baseline_is_looked_at_alone_when_that_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    async def note(word: str) -> None:
        told.append(word)

    async def report(_: float, reached: object) -> Report:
        await reached("alone")  # type: ignore[operator]
        told.append("timed")
        return Report(finding=WorkerSilent(stage="bench", limit_s=1.0), timings_s={})

    bench = object.__new__(DeviceSession)
    bench._workers = cast(session.Workers, SimpleNamespace(still=lambda: note("still")))
    bench._timing = cast(
        session.TimingLock, SimpleNamespace(acquire=lambda: note("nobody prepares"))
    )
    monkeypatch.setattr(session, "settled", lambda: note("settled"))
    peer = SimpleNamespace(fileno=lambda: 0, close=lambda: None)
    worker = SimpleNamespace(
        process=SimpleNamespace(pid=1), peer=peer, end=lambda: note("ended, with its files")
    )
    verifier = SimpleNamespace(give=lambda *_: note("given"), report=report)
    await bench._reported(cast(Verifier, verifier), cast(Worker, worker), cast(Job, AJob()), [], 1)
    ended = ["ended, with its files", "settled"]
    assert told == ["given", "still", "nobody prepares", *ended, "timed"]
