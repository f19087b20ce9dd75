"""Workers that are made ahead of time, that can't be what they are for, and that end."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest
from anyio.abc import TaskGroup

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.devices.worker_pool import DeviceNotReady, Workers
from gpu_sandbox.ipc.framing import Line, PeerGone
from gpu_sandbox.ipc.worker_messages import Done, MakeContext, Request
from gpu_sandbox.supervise.run_directory import RunDirectory, run_directory
from gpu_sandbox.supervise.zygote_client import Zygote

pytestmark = pytest.mark.anyio
HERE = Device(name="cpu", inside="cpu", visible="")
GPU = Device(name="cuda:0", inside="cuda:0", visible="0")


@pytest.mark.process
async def test_a_full_disk_is_the_next_evaluations_failure_and_not_the_sandboxs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spares are made while a candidate runs, and what it fills may be ours."""

    def full(self: RunDirectory, name: str) -> Path:
        (self.path / name / "tmp").mkdir(parents=True)
        raise OSError(errno.ENOSPC, "No space left on device")

    limits = Limits()
    async with run_directory(tmp_path) as run, anyio.create_task_group() as group:
        zygote = Zygote(group, run, limits)
        workers = Workers(HERE, zygote, ())
        with monkeypatch.context() as patched:
            patched.setattr(RunDirectory, "home", full)
            workers.prepare_spares()
            with pytest.raises(SandboxFault, match=r"no worker can be started: .*No space left"):
                await workers.take("worker")
        assert list(run.path.glob("worker-*")) == list(run.path.glob("reference-*")) == []
        worker = await workers.take("worker")
        await worker.end()
        await workers.close()
        group.cancel_scope.cancel()


@pytest.mark.process
async def test_one_that_cant_use_its_device_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    hidden = Device(name="cuda:0", inside="cuda:0", visible="")
    limits = Limits()
    async with run_directory(tmp_path) as run, anyio.create_task_group() as group:
        zygote = Zygote(group, run, limits)
        workers = Workers(hidden, zygote, ())
        with pytest.raises(
            DeviceNotReady, match=r"can't use cuda:0 \(exit code 1: \w+Error: .*CUDA"
        ):
            await workers.take("worker")
        assert list(run.path.glob("worker-*")) == []
        group.cancel_scope.cancel()


@pytest.mark.process
async def test_leaving_does_not_wait_for_spares_that_are_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = anyio.Event()

    async def never(*_: object) -> None:
        begun.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(Workers, "_new", never)
    async with run_directory(tmp_path) as run, anyio.create_task_group() as group:
        zygote = Zygote(group, run, Limits())
        workers = Workers(HERE, zygote, ())
        workers.prepare_spares()
        await begun.wait()
        with anyio.fail_after(5):
            await workers.close()
        group.cancel_scope.cancel()


class GpuZygote:
    """Children with a GPU, as far as the engine sees them: they say when their driver has started,
    and when they have the context that they are asked for. Some hang up then."""

    def __init__(self, *, hang_up_at_first: bool = False) -> None:
        self.told: list[str] = []
        self.asked_why = anyio.Event()
        self.silent_s = 0.0
        self._hang_up = hang_up_at_first
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> GpuZygote:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._group.__aexit__(None, None, None)

    def serving(self, run: RunDirectory, group: TaskGroup) -> Zygote:
        self.run, self.group, self.limits = run, group, Limits()
        return cast(Zygote, self)

    async def candidates_home(self, own: Path) -> Path:
        return own

    async def spawn(
        self, role: str, _: object, sockets: Mapping[str, socket.socket], **__: object
    ) -> object:
        name = f"{role} {sum(told.endswith('begun') for told in self.told) + 1}"
        self.told.append(f"{name} begun")
        sock = socket.socket(fileno=os.dup(sockets["peer"].fileno()))
        self._group.start_soon(self._child, name, Line[Request](sock, Request))

        async def end() -> None:
            self.told.append(f"{name} ended")

        async def last_words() -> str:
            self.asked_why.set()
            await anyio.sleep(self.silent_s)
            return "it hung up"

        return SimpleNamespace(name=name, ended=anyio.Event(), end=end, last_words=last_words)

    async def _child(self, name: str, line: Line[Request]) -> None:
        try:
            await line.send(Done())
            assert isinstance(await line.receive(), MakeContext)
            if self._hang_up:
                self._hang_up = False
                return
            self.told.append(f"{name} has a context")
            await line.send(Done())
            await line.receive()
        except PeerGone:
            pass
        finally:
            line.close()


async def test_on_a_gpu_a_worker_is_begun_before_its_context_is_made(tmp_path: Path) -> None:
    async with run_directory(tmp_path) as run, GpuZygote() as zygote:
        async with anyio.create_task_group() as group:
            workers = Workers(GPU, zygote.serving(run, group), ())
            workers.begin_spares()
            workers.begin_spares()
            await workers.still()
            workers.begin_spares()
            await workers.still()
            assert zygote.told == ["worker 1 begun"], "once"
            workers.prepare_spares()
            assert not workers.are_still
            await workers.still()
            assert zygote.told[1:] == ["worker 1 has a context"]
            workers.begin_spares()
            worker = await workers.take("worker")
            assert cast(SimpleNamespace, worker.process).name == "worker 1"
            await workers.still()
            assert zygote.told[2:] == ["worker 2 begun"]
            await worker.end()
            workers.begin_spares()
            worker = await workers.take("worker")
            assert zygote.told[3:] == ["worker 1 ended", "worker 2 has a context"], "none was left"
            workers.prepare_spares()
            workers.begin_spares()
            await workers.close()
            await worker.end()
        begun, ended = ({t for t in zygote.told if t.endswith(e)} for e in ("begun", "ended"))
        assert len(begun) == len(ended)
        assert list(run.path.glob("worker-*")) == []


async def test_one_that_has_died_since_it_was_begun_costs_nobody(tmp_path: Path) -> None:
    async with (
        run_directory(tmp_path) as run,
        GpuZygote(hang_up_at_first=True) as zygote,
        anyio.create_task_group() as group,
    ):
        workers = Workers(GPU, zygote.serving(run, group), ())
        workers.begin_spares()
        worker = await workers.take("worker")
        assert zygote.told == [
            "worker 1 begun",
            "worker 1 ended",
            "worker 2 begun",
            "worker 2 has a context",
        ]
        await worker.end()


async def test_one_that_hung_up_is_ended_also_where_nobody_hears_why(tmp_path: Path) -> None:
    async with run_directory(tmp_path) as run, GpuZygote(hang_up_at_first=True) as zygote:
        zygote.silent_s = 60.0
        async with anyio.create_task_group() as group:
            workers = Workers(GPU, zygote.serving(run, group), ())
            async with anyio.create_task_group() as taking:
                taking.start_soon(workers.take, "worker")
                await zygote.asked_why.wait()
                taking.cancel_scope.cancel()
        assert zygote.told == ["worker 1 begun", "worker 1 ended"]
        assert list(run.path.glob("worker-*")) == []


@pytest.mark.process
async def test_nobody_waits_for_another_to_die(tmp_path: Path) -> None:
    """Who has memory of a GPU takes a while. Here: one that can't hear that it is to end."""
    limits = Limits()
    told: list[str] = []
    async with run_directory(tmp_path) as run, anyio.create_task_group() as group:
        zygote = Zygote(group, run, limits)
        workers = Workers(HERE, zygote, ())
        slow, other = await workers.take("worker"), await workers.take("worker")
        os.kill(slow.process.pid, signal.SIGSTOP)

        async def end() -> None:
            await slow.end()
            told.append("slow ended")

        async with anyio.create_task_group() as meanwhile:
            meanwhile.start_soon(end)
            await anyio.wait_all_tasks_blocked()
            another = await workers.take("worker")
            told.append("another begun")
            await other.end()
            told.append("other ended")
        assert told == ["another begun", "other ended", "slow ended"]
        assert slow.process.signal == signal.SIGKILL
        await another.end()
        group.cancel_scope.cancel()
