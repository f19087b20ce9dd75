"""Leases, cancellation, evaluations side by side: on both backends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from events.outcomes import Correct
from gpu_sandbox.devices.lease import Leases
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.supervise.zygote_client import ForkedProcess, Zygote
from tests.gpu_sandbox.conftest import evaluation, left_behind
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, candidate
from tests.processes import processes_with

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.mark.process
async def test_cancelling_kills_and_cleans_and_frees_the_device(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    async with make_sandbox() as sandbox:
        with anyio.move_on_after(2.0) as scope:
            await sandbox.evaluate(evaluation(ADD_RELU, candidate("while True: pass")))
        assert scope.cancelled_caught
        most = 1 + 2 * 2
        assert len(processes_with(str(tmp_path))) <= most, "the zygote, two spares, their inits"
        assert left_behind(tmp_path, waiting=True) == []
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group, Leases(group).hold("cpu"):
                pass
    assert processes_with(str(tmp_path)) == []


@pytest.mark.process
async def test_cancelling_while_a_worker_is_started_leaves_no_home(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = anyio.Event()
    spawn = Zygote.spawn

    async def stalled(self: Zygote, role: str, *args: object, **options: object) -> ForkedProcess:
        if Path(str(options["directory"])).name.startswith("worker-"):
            started.set()
            await anyio.sleep_forever()
        return await spawn(self, role, *args, **options)  # type: ignore[arg-type]

    async with make_sandbox() as sandbox:
        monkeypatch.setattr(Zygote, "spawn", stalled)
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.evaluate, evaluation(ADD_RELU, HONEST))
            await started.wait()
            group.cancel_scope.cancel()
        assert left_behind(tmp_path) == []


@pytest.mark.process
async def test_a_lease_is_exclusive_across_processes(tmp_path: Path) -> None:
    script = f"""
import anyio, pathlib, sys
from gpu_sandbox.devices.lease import Leases
async def main():
    async with anyio.create_task_group() as group:
        async with Leases(group, pathlib.Path({str(tmp_path)!r})).hold("gpu"):
            print("held", flush=True)
            sys.stdin.read()
anyio.run(main)
"""
    with subprocess.Popen(  # noqa: ASYNC220 (it starts in no time)
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        async with anyio.create_task_group() as group:
            leases = Leases(group, tmp_path)
            with anyio.move_on_after(0.2) as scope:
                async with leases.hold("gpu"):
                    pass
            assert scope.cancelled_caught
            assert (leases.waiting, leases.holding) == (0, 0)
            other.kill()
            with anyio.fail_after(20):
                async with leases.hold("gpu"):
                    pass


async def test_leases_are_served_in_order(tmp_path: Path) -> None:
    order: list[int] = []

    async def take(leases: Leases, number: int) -> None:
        async with leases.hold("gpu"):
            order.append(number)
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        leases = Leases(group, tmp_path)
        for number in range(5):
            group.start_soon(take, leases, number)
            await anyio.sleep(0.002)
    assert order == [0, 1, 2, 3, 4]


async def test_a_device_that_is_not_clear_is_for_the_next_one_here_alone(tmp_path: Path) -> None:
    clear = anyio.Event()
    async with anyio.create_task_group() as group:
        leases, others = Leases(group, tmp_path), Leases(group, tmp_path)

        async def free() -> bool:
            with anyio.move_on_after(0.05):
                async with others.hold("gpu"):
                    return True
            return False

        async with leases.hold("gpu") as lease:
            lease.clear = clear
        assert leases.holding == 0
        assert not await free()
        async with leases.hold("gpu") as lease:
            assert lease.clear is clear
            clear.set()
            await anyio.wait_all_tasks_blocked()
            assert not await free()
        assert await free()


@pytest.mark.process
async def test_evaluations_side_by_side_share_one_device(sandbox: LocalSandbox) -> None:
    found = []

    async def one(seed: int) -> None:
        found.append(await sandbox.evaluate(evaluation(ADD_RELU, HONEST, seed=seed)))

    async with anyio.create_task_group() as group:
        for seed in range(2):
            group.start_soon(one, seed)
    assert all(isinstance(verdict.outcome, Correct) for verdict in found)
    assert max(verdict.queue_s for verdict in found) > min(v.timings_s["lease"] for v in found) / 2
