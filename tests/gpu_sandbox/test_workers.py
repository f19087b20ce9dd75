"""Workers that can't be what they are for."""

from __future__ import annotations

import errno
from pathlib import Path

import anyio
import pytest

from gpu_sandbox.devices import Device
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import SandboxFault
from gpu_sandbox.workdir import RunDirectory, run_directory
from gpu_sandbox.workers import DeviceNotReady, Workers
from gpu_sandbox.zygote import Zygote

pytestmark = pytest.mark.anyio
HERE = Device(name="cpu", inside="cpu", visible="")


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
        workers = Workers(HERE, zygote, run, group, limits, ())
        with monkeypatch.context() as patched:
            patched.setattr(RunDirectory, "home", full)
            workers.prepare_spares()
            with pytest.raises(SandboxFault, match=r"no worker can be started: .*No space left"):
                await workers.take("worker")
        assert list(run.path.glob("worker-*")) == list(run.path.glob("reference-*")) == []
        worker = await workers.take("worker")
        await worker.end()
        await workers.close()
        await zygote.close()


async def test_one_that_cant_use_its_device_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    hidden = Device(name="cuda:0", inside="cuda:0", visible="")
    limits = Limits()
    async with run_directory(tmp_path) as run, anyio.create_task_group() as group:
        zygote = Zygote(group, run, limits)
        workers = Workers(hidden, zygote, run, group, limits, ())
        with pytest.raises(
            DeviceNotReady, match=r"can't use cuda:0 \(exit code 1: \w+Error: .*CUDA"
        ):
            await workers.take("worker")
        assert list(run.path.glob("worker-*")) == []
        await zygote.close()


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
        workers = Workers(HERE, zygote, run, group, Limits(), ())
        workers.prepare_spares()
        await begun.wait()
        with anyio.fail_after(5):
            await workers.close()
        await zygote.close()
