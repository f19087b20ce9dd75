"""Devices that wear out, and candidates that kill whoever judges them: who pays for it.

There are several devices of the CPU here, each a session of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

from events.outcomes import Correct, Crashed, WrongResult
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import NoDeviceLeft, SandboxFault
from gpu_sandbox.backends import known
from gpu_sandbox.backends.known import device_named
from gpu_sandbox.devices import device_pool
from gpu_sandbox.devices.device_pool import Judged
from gpu_sandbox.devices.verifier_client import Verifier
from gpu_sandbox.devices.worker_pool import DeviceNotReady
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.supervise.zygote_client import ForkedProcess, Zygote
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, candidate

pytestmark = [pytest.mark.anyio, pytest.mark.process]

THREE = "cpu:0,cpu:1,cpu:2"
Reached: TypeAlias = Callable[[str], Awaitable[None]]


@pytest.fixture
def three_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(name: str) -> Device:
        return Device(name=name, inside="cpu", visible="") if ":" in name else device_named(name)

    for module in (known, device_pool):
        monkeypatch.setattr(module, "device_named", named)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Roles whose processes, when they end, count as held by the kernel."""
    roles: set[str] = set()
    spawn, gone = Zygote.spawn, ForkedProcess.gone
    role_of: dict[ForkedProcess, str] = {}

    async def spawned(self: Zygote, role: str, *args: object, **options: object) -> ForkedProcess:
        process = await spawn(self, role, *args, **options)  # type: ignore[arg-type]
        role_of[process] = role
        return process

    def went(self: ForkedProcess, *how: int | None, stuck: bool = False) -> None:
        gone(self, *how, stuck=stuck or role_of.get(self) in roles)  # type: ignore[arg-type]

    monkeypatch.setattr(Zygote, "spawn", spawned)
    monkeypatch.setattr(ForkedProcess, "gone", went)
    return roles


@pytest.fixture
def unready(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Devices on which every verifier's probe fails."""
    names: set[str] = set()
    ready = Verifier.ready

    async def proved(self: Verifier, within_s: float) -> None:
        await ready(self, within_s)
        if self._device.name in names:
            raise DeviceNotReady(f"{self._device.name} is not ready: it can't add one")

    monkeypatch.setattr(Verifier, "ready", proved)
    return names


@pytest.mark.usefixtures("three_devices")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_device_that_is_of_no_more_use_leaves_the_pool_and_the_others_go_on(
    make_sandbox: Callable[..., LocalSandbox], stuck: set[str], unready: set[str]
) -> None:
    honest = evaluation(ADD_RELU, HONEST, device=THREE)
    async with make_sandbox(devices=(THREE,)) as sandbox:
        unready.add("cpu:0")
        with pytest.raises(SandboxFault, match="cpu:0 is not ready"):
            await sandbox.evaluate(honest)
        assert sandbox.load().quarantined == {}
        with pytest.raises(SandboxFault, match="cpu:0: its probe failed 2 times in a row"):
            await sandbox.evaluate(honest)
        assert list(sandbox.load().quarantined) == ["cpu:0"]

        stuck.add("worker")
        with suppress(SandboxFault):  # if it is known in time; else it was measured before
            verdict = await sandbox.evaluate(honest)
            assert isinstance(verdict.outcome, Correct)
        with anyio.fail_after(10):
            while "cpu:1" not in sandbox.load().quarantined:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert sandbox.load().quarantined["cpu:1"].startswith("a process on it was killed")
        stuck.clear()
        verdict = await sandbox.evaluate(honest)
        assert isinstance(verdict.outcome, Correct)
        assert verdict.device == "cpu:2"
        stuck.add("worker")
        wrong = await sandbox.evaluate(evaluation(ADD_RELU, candidate("return a"), device=THREE))
        assert isinstance(wrong.outcome, WrongResult), "what it failed in stands"
        with pytest.raises(NoDeviceLeft, match=r"cpu:0: .*; cpu:1: .*; cpu:2: .*engine doctor"):
            await sandbox.evaluate(honest)


@pytest.mark.usefixtures("three_devices")
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_device_is_had_once_more_unless_others_wait_or_it_is_quarantined(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    device = Device(name="cpu:0", inside="cpu", visible="")
    judged = Judged(device, "cpu:0", [], [], queue_s=0.0, lease_s=0.0)
    async with make_sandbox(devices=(THREE,)) as sandbox:
        pool = sandbox._open.devices
        async with pool.lease_again(judged) as cores:
            assert cores
            assert sandbox.load().on_device == 1
        pool.leases.waiting = 2
        async with pool.lease_again(judged) as cores:
            assert cores is None
        pool.leases.waiting = 1
        async with pool.lease_again(judged) as cores:
            assert cores
        async with pool.while_idle(judged) as cores:
            assert cores is None
        pool.leases.waiting = 0
        async with pool.while_idle(judged) as cores:
            assert cores
            assert not pool.leases.others_wait()
        pool.stuck(device)
        for lease_again in (pool.lease_again, pool.while_idle):
            async with lease_again(judged) as cores:
                assert cores is None
        assert "the kernel does not let go of it" in sandbox.load().quarantined["cpu:0"]


@pytest.mark.usefixtures("three_devices")
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_who_wants_an_idle_device_lets_those_first_who_come_while_it_waits(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    device = Device(name="cpu:0", inside="cpu", visible="")
    judged = Judged(device, "cpu:0", [], [], queue_s=0.0, lease_s=0.0)
    given: list[tuple[int, ...] | None] = []

    async def idle() -> None:
        async with pool.while_idle(judged) as cores:
            given.append(cores)

    async def comes_later() -> None:
        async with pool.leases.hold("cpu:0"):
            pass

    async with make_sandbox(devices=(THREE,)) as sandbox:
        pool = sandbox._open.devices
        async with anyio.create_task_group() as group, pool.leases.hold("cpu:0"):
            for number, work in enumerate((idle, comes_later), 1):
                group.start_soon(work)
                while pool.leases.waiting < number:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
    assert given == [None]


def deadly(deaths: int, left: Path, how: str = "os.kill(os.getpid(), 9)") -> str:
    """A task whose reference kills the verifier so many times, and works from then on. (It
    is trusted there; in the reference's own worker it finds no such file.)"""
    left.write_text(str(deaths))
    return ADD_RELU.replace(
        "        return torch.relu",
        f"""        import os, pathlib
        left = pathlib.Path({str(left)!r})
        if left.exists() and int(left.read_text()):
            left.write_text(str(int(left.read_text()) - 1))
            {how}
        return torch.relu""",
    )


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_who_kills_every_verifier_has_crashed_unless_the_reference_does_so_too(
    sandbox: LocalSandbox, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    verdict = await sandbox.evaluate(evaluation(deadly(1, left), HONEST))
    assert isinstance(verdict.outcome, Correct), "once may be chance"
    assert any(
        "judged anew after the verifier broke down: signal 9" in note for note in verdict.notes
    )

    verdict = await sandbox.evaluate(evaluation(deadly(2, left), HONEST))
    assert isinstance(verdict.outcome, Crashed)
    assert "broke down while judging this candidate, 2 times" in verdict.outcome.reason
    assert "signal 9" in verdict.outcome.reason
    no_memory = "raise MemoryError('eaten by the candidate')"
    verdict = await sandbox.evaluate(evaluation(deadly(2, left, no_memory), HONEST))
    assert isinstance(verdict.outcome, Crashed)
    assert "eaten by the candidate" in verdict.outcome.reason
    assert sandbox.load().quarantined == {}

    with pytest.raises(SandboxFault, match="cpu: the reference can't be judged on it: signal 9"):
        await sandbox.evaluate(evaluation(deadly(9, left), HONEST))
    with pytest.raises(NoDeviceLeft):
        await sandbox.evaluate(evaluation(ADD_RELU, HONEST))


BREAKS_LATER = ADD_RELU.replace(
    "return torch.relu(a + b)",
    "seen.add(float(a[0, 0]))\n        assert len(seen) < 3\n        return torch.relu(a + b)",
).replace("class Model", "seen = set()\n\n\nclass Model")


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_task_that_breaks_while_leave_is_awaited_costs_no_verifier(
    make_sandbox: Callable[..., LocalSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials are worked out meanwhile. The leave to go on comes all the same, and must not be
    taken for the next job."""
    roles: list[str] = []
    report, spawn = Verifier.report, Zygote.spawn

    async def late(self: Verifier, limit_s: float, reached: Reached) -> object:
        async def after_a_while(stage: str) -> None:
            if stage == "baseline":
                await anyio.sleep(0.5)
            await reached(stage)

        return await report(self, limit_s, after_a_while)

    async def spawned(self: Zygote, role: str, *args: object, **options: object) -> ForkedProcess:
        roles.append(role)
        return await spawn(self, role, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Verifier, "report", late)
    monkeypatch.setattr(Zygote, "spawn", spawned)
    async with make_sandbox() as sandbox:
        with pytest.raises(SandboxFault, match="AssertionError"):
            await sandbox.evaluate(evaluation(BREAKS_LATER, HONEST))
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct)
    assert roles.count("verifier") == 1
