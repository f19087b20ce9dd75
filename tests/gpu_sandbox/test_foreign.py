"""Who else is on a device: by the real calls into a library that stands in for the driver's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.accelerator.driver_account import DeviceProcess
from gpu_sandbox.confine import processes
from gpu_sandbox.contention.foreign_processes import ForeignProcesses, foreign_among, our_processes
from gpu_sandbox.cuda.nvml import Nvml
from tests.gpu_sandbox.nvml import FakeDriver

GB = 1 << 30


@pytest.fixture
def stranger() -> Iterator[int]:
    """A living process."""
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield running.pid
    running.communicate()


def told(driver: FakeDriver, *ours: int) -> list[str]:
    foreign = ForeignProcesses(driver.nvml, lambda: {os.getpid(), *ours})
    foreign.sample()
    return foreign.notes()


def test_our_own_processes_are_not_foreign(driver: FakeDriver, stranger: int) -> None:
    driver.process(os.getpid(), GB)
    driver.process(stranger, GB)
    assert told(driver, stranger) == []
    assert stranger in processes.descendants(os.getpid())
    assert os.getpid() in our_processes()


def test_a_foreign_process_is_named_with_its_memory(driver: FakeDriver, stranger: int) -> None:
    driver.process(os.getpid(), GB)
    driver.process(stranger, 3 * GB)
    name = Path(f"/proc/{stranger}/comm").read_text().strip()
    expected = f"another process is on the device: {name} (pid {stranger}, 3.0 GB)"
    assert told(driver) == [expected]


def test_many_foreign_processes_are_counted_and_some_are_named(driver: FakeDriver) -> None:
    driver.process(os.getpid(), GB)
    for number in range(70):  # more than are asked for at first
        driver.process((1 << 24) + number, 1)
    (note,) = told(driver)
    assert note.startswith("70 other processes are on the device: a process that can't be looked")
    assert note.endswith("65 more")


def test_one_that_comes_later_is_seen_and_one_that_has_gone_is_remembered(
    driver: FakeDriver, fake_library: Path
) -> None:
    foreign = ForeignProcesses(driver.nvml, lambda: {os.getpid()})
    driver.process(os.getpid(), GB)
    foreign.sample()
    assert foreign.notes() == []
    driver.process(1 << 24, GB)
    foreign.sample()
    again = FakeDriver(fake_library)
    again.process(os.getpid(), GB)
    foreign.sample()
    assert len(foreign.notes()) == 1


def test_numbers_of_another_namespace_name_nobody(driver: FakeDriver) -> None:
    """As an older driver gives them in a container: they may be those of somebody else."""
    for pid in range(1, 5):
        driver.process(pid, GB)
    assert told(driver) == []  # as many as we may be ourselves
    driver.process(5, GB)
    (note,) = told(driver)
    assert note.startswith("another process is on the device, as its driver counts")
    assert "pid" not in note
    foreign = ForeignProcesses(driver.nvml, lambda: {os.getpid()}, preparing=1)
    foreign.sample()
    assert foreign.notes() == []


def test_memory_of_processes_that_are_not_listed_is_noticed(driver: FakeDriver) -> None:
    driver.process(os.getpid(), GB)
    driver.hidden(GB // 2)
    assert told(driver) == []  # the driver's own, perhaps
    driver.hidden(4 * GB)
    (note,) = told(driver)
    assert note.startswith("4.5 GB of the device's memory are held by processes that can't be seen")


def test_without_a_library_nothing_is_said(tmp_path: Path, fake_library: Path) -> None:
    assert Nvml.of("fake", str(tmp_path / "none.so")) is None
    assert Nvml.of("fake", "libc.so.6") is None  # a library without such functions
    assert Nvml.of("another", str(fake_library)) is None
    foreign = ForeignProcesses(None, set)
    foreign.sample()
    assert foreign.notes() == []


PIDS = st.integers(1, 40)
LISTED = st.lists(
    st.builds(DeviceProcess, PIDS, st.one_of(st.none(), st.integers(0, 9 * GB))),
    unique_by=lambda process: process.pid,
)


@given(LISTED, PIDS, st.sets(PIDS), st.integers(0, 99 * GB))
def test_nobody_of_ours_is_ever_named(
    listed: list[DeviceProcess], own: int, ours: set[int], used_bytes: int
) -> None:
    found = foreign_among(listed, own, ours, used_bytes)
    assert not {process.pid for process in found.named} & {own, *ours}
    assert len(found.named) + found.unnamed <= len(listed)
    if own in {process.pid for process in listed}:
        strangers = {process.pid for process in listed} - {own, *ours}
        assert {process.pid for process in found.named} == strangers
    else:
        assert not found.named
