"""The queue for a device between engines: fair to each, and nobody's end holds it up."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.devices import byte_locks, lock_files
from gpu_sandbox.devices import lease_queue as places
from gpu_sandbox.devices.lease import Leases
from gpu_sandbox.devices.lease_queue import Place
from gpu_sandbox.devices.lock_files import lock_file
from tests.gpu_sandbox.leasing import Another, another, is_free

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(lock_files.VARIABLE, str(tmp_path))
    return lock_file(tmp_path, "gpu")


@pytest.mark.process
async def test_an_engine_with_many_to_serve_leaves_others_their_turn() -> None:
    """It always has a next one, who takes over a device that is not clear yet."""
    with another("gpu", "3", "0.1") as busy:
        for _ in range(4):
            busy.says()
        async with anyio.create_task_group() as group:
            asked = time.monotonic()
            with anyio.fail_after(20):
                async with Leases(group).hold("gpu"):
                    had = time.monotonic()
        meanwhile = [begun for begun in map(float, busy.kill().split()) if asked < begun < had]
    assert len(meanwhile) <= 2, "who waited before, and hardly who came since"


@pytest.mark.process
def test_engines_take_turns() -> None:
    with ExitStack() as stack:
        names = "abc"
        engines = {name: stack.enter_context(another("gpu", "2", "0.02")) for name in names}
        for engine in engines.values():
            assert engine.says(), "it never had its turn"
        time.sleep(2)
        begun = [(float(at), name) for name in names for at in engines[name].kill().split()]
    turns = "".join(name for _, name in sorted(begun))
    last_start = max(turns.index(name) for name in names)
    first_end = min(turns.rindex(name) for name in names)
    together = turns[last_start:first_end]
    assert len(together) > 15, turns
    out_of_turn = sum(this == following for this, following in pairwise(together))
    assert out_of_turn <= 1, turns
    counts = [together.count(name) for name in names]
    assert max(counts) - min(counts) <= 2, turns


def queued(place: Path, count: int) -> None:
    """Wait until so many are in the queue, by the kernel's list of locks."""
    mark = f":{place.stat().st_ino} "
    deadline = time.monotonic() + 20
    while True:
        lines = [line for line in Path("/proc/locks").read_text().splitlines() if mark in line]
        if sum(not line.endswith(" 0 0") for line in lines) == count:
            return
        assert time.monotonic() < deadline, lines
        time.sleep(0.01)


@pytest.mark.process
async def test_nobody_s_end_holds_up_who_is_behind(place: Path) -> None:
    """The holder's, that of who is next, and that of who is next and has been stopped."""
    with ExitStack() as stack:

        def one_more() -> Another:
            return stack.enter_context(another("gpu"))

        holder = one_more()
        assert holder.says() == "held"
        waiters: list[Another] = []
        for count in (1, 2, 3):
            waiters.append(one_more())
            queued(place, count)
        killed, following, stopped = waiters
        async with anyio.create_task_group() as group:
            killed.kill()
            queued(place, 2)
            holder.kill()
            assert following.says() == "held"
            stopped.stop()
            following.kill()
            with anyio.fail_after(20):
                async with Leases(group).hold("gpu"):
                    pass


async def test_first_come_first_served_between_engines(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_PATIENCE_S", 0.2)
    order: list[str] = []

    async def take(leases: Leases, name: str) -> None:
        async with leases.hold("gpu"):
            order.append(name)

    async with anyio.create_task_group() as group:
        ours, theirs, others = Leases(group), Leases(group), Leases(group)
        async with ours.hold("gpu"), anyio.create_task_group() as waiting:
            waiting.start_soon(is_free, others, "gpu")  # it gives up
            await anyio.wait_all_tasks_blocked()
            for leases, name in [(theirs, "theirs"), (ours, "ours")]:
                group.start_soon(take, leases, name)
                await anyio.wait_all_tasks_blocked()
            await anyio.sleep(0.3)
            assert order == []
    assert order == ["theirs", "ours"]


async def test_an_engine_by_itself_hands_over_at_once_and_looks_at_no_lock_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []
    take = Place.take

    def noted(self: Place) -> bool:
        looks.append(time.monotonic())
        return take(self)

    monkeypatch.setattr(Place, "take", noted)
    served = anyio.Event()

    async def next_one() -> None:
        async with leases.hold("gpu"):
            served.set()

    async with anyio.create_task_group() as group:
        leases = Leases(group)
        async with leases.hold("gpu"):
            group.start_soon(next_one)
            await anyio.sleep(0.2)
            assert len(looks) == 2
        for _ in range(3):
            await checkpoint()
        assert served.is_set()


async def test_who_waits_for_several_devices_gets_one_and_leaves_the_other_queues() -> None:
    async with anyio.create_task_group() as group:
        ours, theirs, others = Leases(group), Leases(group), Leases(group)
        async with ours.hold("gpu"):
            async with theirs.hold("gpu", "other") as lease:
                assert lease.identity == "other"
                assert not await is_free(others, "gpu", "other")
            assert await is_free(others, "gpu", "other")
        assert await is_free(others, "gpu")


async def test_a_removed_file_is_no_lock(place: Path) -> None:
    """Who waited at it goes to the new one."""
    async with anyio.create_task_group() as group:
        before, since, waiter = Leases(group), Leases(group), Leases(group)
        done = anyio.Event()

        async def wait() -> None:
            async with waiter.hold("gpu"):
                done.set()

        async with before.hold("gpu"):
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            os.unlink(place)
            holding = since.hold("gpu")
            await holding.__aenter__()
        await anyio.sleep(0.1)
        assert not done.is_set()
        await holding.__aexit__(None, None, None)
        with anyio.fail_after(5):
            await done.wait()


async def test_a_file_that_is_locked_as_a_whole_is_named(place: Path) -> None:
    with place.open("w") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, byte_locks._flock(fcntl.F_WRLCK, 0, 0))
        async with anyio.create_task_group() as group:
            with pytest.raises(PrerequisiteMissing, match=f"{place}: .*not by an engine"):
                await is_free(Leases(group), "gpu")


async def test_who_has_a_device_sees_whether_another_engine_waits_for_it() -> None:
    async with anyio.create_task_group() as group:
        ours, theirs = Leases(group), Leases(group)
        assert not ours.others_wait()
        async with ours.hold("gpu"), anyio.create_task_group() as waiting:
            assert not ours.others_wait()

            async def stand_in_the_queue() -> None:
                async with theirs.hold("gpu"):
                    pass

            waiting.start_soon(stand_in_the_queue)
            with anyio.fail_after(10):
                while not ours.others_wait():  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            waiting.cancel_scope.cancel()
        assert not ours.others_wait()
