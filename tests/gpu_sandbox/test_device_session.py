"""When a device's next workers are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.backends.known import device_named
from gpu_sandbox.devices.device_session import STUCK, DeviceSession, JobResult
from gpu_sandbox.devices.verifier_client import Verifier
from gpu_sandbox.devices.worker_pool import Side, Worker, Workers
from gpu_sandbox.ipc.verifier_messages import Report
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST

pytestmark = [pytest.mark.anyio, pytest.mark.process]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stages that a verifier reaches, its report, and workers that are begun."""
    told: list[str] = []
    # nor a second look
    monkeypatch.setattr("gpu_sandbox.devices.recheck.is_disputed", lambda _: False)
    new, report = Workers._new, Verifier.report

    async def noted_new(self: Workers, side: Side) -> Worker:
        told.append(f"a {side}")
        return await new(self, side)

    async def noted_report(
        self: Verifier, limit_s: float, reached: Callable[[str], Awaitable[None]]
    ) -> Report:
        async def noted(stage: str) -> None:
            told.append(stage)
            await reached(stage)

        reported = await report(self, limit_s, noted)
        told.append("reported")
        return reported

    monkeypatch.setattr(Workers, "_new", noted_new)
    monkeypatch.setattr(Verifier, "report", noted_report)
    return told


async def judge(sandbox: LocalSandbox) -> None:
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct)


async def test_the_next_workers_are_made_after_a_verdict_that_nobody_waits_behind(
    make_sandbox: Callable[..., LocalSandbox], told: list[str]
) -> None:
    async with make_sandbox() as sandbox:
        await judge(sandbox)
        clear = sandbox._open.devices._sessions["cpu"].clear
        with anyio.fail_after(10):
            await clear.wait()
        assert told[-3:] == ["reported", "a worker", "a reference"]
        told.clear()
        await judge(sandbox)
        assert told.index("load") < told.index("a worker") < told.index("bench"), "in haste"
        told.clear()
        await anyio.sleep(0.7)
        await judge(sandbox)
        assert "a worker" not in told[: told.index("reported")]


async def test_where_somebody_waits_they_are_made_while_nothing_is_timed(
    make_sandbox: Callable[..., LocalSandbox], told: list[str]
) -> None:
    async with make_sandbox() as sandbox:
        await judge(sandbox)
        await anyio.sleep(0.7)
        told.clear()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(judge, sandbox)
        made = told.index("a worker")
        assert told.index("load") < made < told.index("bench")


@pytest.fixture
def one_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept for all candidates, as on a GPU."""
    init = Workers.__init__

    def keeping(self: Workers, *arguments: Any) -> None:
        init(self, *arguments)
        self.renews_reference = False

    monkeypatch.setattr(Workers, "__init__", keeping)


@pytest.mark.usefixtures("one_reference")
async def test_a_second_look_has_a_reference_of_its_own(
    make_sandbox: Callable[..., LocalSandbox], told: list[str]
) -> None:
    async with make_sandbox() as sandbox:
        await judge(sandbox)
        assert told.count("a reference") == 1
        await judge(sandbox)
        assert told.count("a reference") == 1
        told.clear()
        verdict = await sandbox.evaluate(
            evaluation(ADD_RELU, HONEST, root_ms=1.0, incumbent_ms=1e9)
        )
        assert isinstance(verdict.outcome, Correct)
        assert told.count("reported") == 2
        assert "a reference" in told[told.index("reported") :]
        assert any(note.startswith("judged twice") for note in verdict.notes)


@pytest.mark.usefixtures("one_reference")
async def test_a_new_reference_is_not_made_anew(
    make_sandbox: Callable[..., LocalSandbox], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = DeviceSession.run

    async def afresh(self: DeviceSession, *arguments: Any, **_: Any) -> JobResult:
        return await run(self, *arguments, afresh=True)

    monkeypatch.setattr(DeviceSession, "run", afresh)
    async with make_sandbox() as sandbox:
        for references in (1, 2):
            await judge(sandbox)
            assert told.count("a reference") == references


@pytest.mark.usefixtures("one_reference")
async def test_no_second_look_where_the_reference_before_is_stuck(
    make_sandbox: Callable[..., LocalSandbox], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck(self: DeviceSession, worker: Worker) -> None:
        await worker.end()
        self.find_unfit(STUCK)

    monkeypatch.setattr(DeviceSession, "_end", stuck)
    async with make_sandbox() as sandbox:
        twice = evaluation(ADD_RELU, HONEST, root_ms=1.0, incumbent_ms=1e9)
        with pytest.raises(SandboxFault, match=STUCK):
            await sandbox.evaluate(twice)
        assert told.count("reported") == 1


async def test_what_was_made_ready_serves_the_first_job(
    make_sandbox: Callable[..., LocalSandbox], told: list[str]
) -> None:
    async with make_sandbox() as sandbox:
        pool = sandbox._open.devices
        await pool._session(device_named("cpu"), "cpu").get_ready()
        ready = list(told)
        await judge(sandbox)
    assert ready == ["a reference"]
    assert told[:3] == ["a reference", "a worker", "reference"]
