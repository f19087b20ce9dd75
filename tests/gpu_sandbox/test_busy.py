"""What counts as a busy machine: by figures, and by real processes on real cores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.contention.core_time import CoreWatch, used_ticks
from gpu_sandbox.contention.thresholds import (
    MAX_FOREIGN_CORES,
    MAX_FOREIGN_SHARE,
    MAX_HALVES_APART,
    MAX_SPREAD,
    MAX_UTILIZATION,
    CoreTime,
    DeviceUse,
    bests_apart,
    busy_by_itself,
    busy_cores,
    busy_device,
    busy_pairs,
    medians_apart,
)
from gpu_sandbox.contention.watch import Watch, utilization_at_rest
from tests.gpu_sandbox.nvml import FakeDriver


def test_halves_that_agree_are_not_apart() -> None:
    assert medians_apart([1.0, 1.01] * 10) == pytest.approx(0.0095)
    assert busy_by_itself(medians_apart([1.0, 1.01] * 10)) == []


def test_halves_that_differ_show_a_busy_machine_with_the_bound() -> None:
    apart = medians_apart([1.0, 1.2] * 10)
    assert busy_by_itself(apart) == [
        "two interleaved halves of the measurement differ by 20% (allowed 5%)"
    ]
    assert busy_by_itself(MAX_HALVES_APART) == []


def test_what_a_clock_does_not_tell_apart_is_no_noise() -> None:
    assert medians_apart([0.004, 0.0044] * 10) == 0.0
    assert busy_by_itself(0.0, spread=0.9, median_ms=0.001) == []
    assert busy_by_itself(0.0, spread=0.9, median_ms=1.0) != []
    assert busy_by_itself(0.0, spread=MAX_SPREAD, median_ms=1.0) == []


def test_a_few_samples_say_nothing() -> None:
    assert medians_apart([1.0, 9.0] * 2) == bests_apart([1.0, 9.0] * 2) == 0.0
    assert medians_apart([]) == 0.0


def test_the_best_of_each_half_is_what_a_probe_takes() -> None:
    assert bests_apart([1.0, 1.1, 5.0, 9.0, 1.0, 1.2]) == pytest.approx(0.1)
    assert bests_apart([3.0, 9.0, 2.0, 2.0, 9.0, 9.0]) == 0.0


def test_one_lucky_sample_of_many_is_no_sign_of_a_busy_machine() -> None:
    assert bests_apart([0.9, *[1.0] * 39]) == pytest.approx(0.0)
    assert bests_apart([0.9, 1.0] * 20) == pytest.approx(1 / 9)


@given(st.lists(st.floats(1e-6, 1e6), max_size=60))
def test_whatever_the_samples_are_halves_are_apart_by_a_number(samples: list[float]) -> None:
    assert medians_apart(samples) >= 0
    assert bests_apart(samples) >= 0
    assert medians_apart([1.0] * len(samples)) == 0


def test_an_interval_of_pairs() -> None:
    assert busy_pairs(1.0, 1.09) == []
    assert busy_pairs(1.0, 1.2) == ["the interval of its ratio is 20% wide (allowed 10%)"]


@pytest.mark.parametrize(
    ("cores", "elapsed_s", "used_s", "own_s", "busy"),
    [
        (1, 3.0, 3.0, 2.9, False),
        (1, 3.0, 3.0, 2.0, True),
        (1, 0.2, 0.2, 0.16, False),  # ticks of 10 ms
        (16, 3.0, 3.0, 0.0, True),  # one core of 16 is taken
        (16, 3.0, 2.0, 0.0, False),
        (4, 3.0, 6.0, 5.5, False),  # less than 5 % of them
        (2, 3.0, 1.0, 2.0, False),  # counts that don't fit each other
        (1, 0.0, 1.0, 0.0, False),
    ],
)
def test_the_time_of_others_on_the_cores_that_time(
    cores: int, elapsed_s: float, used_s: float, own_s: float, busy: bool
) -> None:
    found = busy_cores(CoreTime(cores=cores, elapsed_s=elapsed_s, used_s=used_s, own_s=own_s))
    assert bool(found) == busy


def test_the_bound_that_is_told_is_the_one_that_holds() -> None:
    one = CoreTime(cores=1, elapsed_s=10.0, used_s=5.0, own_s=0.0)
    many = CoreTime(cores=16, elapsed_s=10.0, used_s=80.0, own_s=0.0)
    assert busy_cores(one) == ["others used 50% of the time of the core that times (allowed 10%)"]
    assert busy_cores(many) == [
        "others used 50% of the time of the 16 cores that time (allowed 5%)"
    ]
    assert (MAX_FOREIGN_CORES, MAX_FOREIGN_SHARE) == (0.1, 0.05)
    assert busy_cores(None) == []


@pytest.mark.parametrize(
    ("processes", "utilization", "busy"),
    [
        (0, None, False),
        (0, 0, False),
        (1, 0, False),  # another engine's, that waits for its turn
        (1, MAX_UTILIZATION, False),
        (0, MAX_UTILIZATION + 1, True),  # of one that can't be seen
        (1, 100, True),
        (1, None, True),  # nothing tells what it does
    ],
)
def test_the_use_of_a_device_by_others(processes: int, utilization: int | None, busy: bool) -> None:
    assert bool(busy_device(DeviceUse(processes=processes, utilization=utilization))) == busy


STAT = """cpu  100 0 100 1000 0 0 0 0 0 0
cpu0 40 1 30 500 20 5 4 2 9 9
cpu1 10 0 0 900 0 0 0 0 0 0
intr 1 2 3
"""


def test_used_ticks_are_all_but_idle_ones() -> None:
    assert used_ticks(STAT, [0]) == 40 + 1 + 30 + 5 + 4 + 2
    assert used_ticks(STAT, [0, 1]) == 92
    assert used_ticks(STAT, [0, 7]) is None, "one that the kernel does not list"
    assert used_ticks("cpu 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n", [0]) is None, "nothing is counted"
    assert used_ticks("", [0]) is None


@contextmanager
def hog(core: int) -> Iterator[int]:
    program = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.readline()
    try:
        yield running.pid
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def watched(core: int, ours: set[int]) -> CoreTime:
    watch = CoreWatch([core], lambda: ours)
    watch.sample()
    time.sleep(0.6)
    watch.sample()
    found = watch.time()
    if found is None:
        pytest.skip("this kernel does not tell of its cores")
    return found


@pytest.mark.process
def test_a_strangers_time_is_not_ours() -> None:
    core = max(os.sched_getaffinity(0))
    idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with hog(core) as pid:
        as_stranger, as_ours = watched(core, {idle.pid}), watched(core, {pid})
        below_us = watched(core, {os.getpid()})
    idle.communicate()
    assert busy_cores(as_stranger)
    assert as_stranger.own_s < 0.05 < min(as_ours.own_s, as_stranger.foreign_s)
    assert below_us.own_s > 0.05, "what descends from ours is ours"
    assert 0.5 < as_ours.elapsed_s < 30


@pytest.mark.process
def test_one_that_has_ended_keeps_the_time_of_the_last_look() -> None:
    core, ours = max(os.sched_getaffinity(0)), {os.getpid()}
    watch = CoreWatch([core], lambda: ours)
    watch.sample()
    with hog(core) as pid:
        ours.add(pid)
        time.sleep(0.5)
        watch.sample()
    watch.sample()
    found = watch.time()
    assert found is None or found.own_s > 0.05


# --- the device's use, by a driver that is told what to say


def test_our_own_work_of_before_is_waited_out(driver: FakeDriver) -> None:
    for percent in (90, 40, 3, 80):
        driver.utilization(percent)
    assert utilization_at_rest(driver.nvml) == 3


def test_a_device_that_does_not_rest_is_busy(driver: FakeDriver) -> None:
    driver.process(os.getpid(), 1)
    driver.utilization(70)
    watch = Watch(driver.nvml, [0], lambda: [os.getpid()])
    watch.begin(at_rest=True)
    watch.end(at_rest=True)
    assert watch.reasons()[0] == (
        "the device was at work for 70 % of the time while nothing of ours ran (allowed 5 %)"
    )


def test_others_that_begin_later_are_seen_afterwards(driver: FakeDriver) -> None:
    driver.process(os.getpid(), 1)
    driver.utilization(0)
    watch = Watch(driver.nvml, [0], lambda: [os.getpid()])
    watch.begin(at_rest=True)
    driver.process(1 << 24, 1)
    driver.utilization(100)
    watch.end(at_rest=True)
    assert watch.reasons()[0].startswith("the device was at work for 100 %")
    assert watch.notes()


def test_of_pairs_the_device_is_seen_at_rest_afterwards(driver: FakeDriver) -> None:
    driver.process(os.getpid(), 1)
    driver.utilization(60)
    watch = Watch(driver.nvml, [0], lambda: [os.getpid()])
    watch.begin()
    watch.end(at_rest=True)
    assert watch.reasons()[0].startswith("the device was at work for 60 %")


def test_where_a_driver_tells_no_use_processes_count(driver: FakeDriver) -> None:
    driver.process(os.getpid(), 1)
    driver.process(1 << 24, 1)
    watch = Watch(driver.nvml, [0], lambda: [os.getpid()])
    watch.begin(at_rest=True)
    watch.end(at_rest=True)
    assert watch.reasons()[0].startswith("another process on the device, and nothing tells")
    assert utilization_at_rest(driver.nvml) is None
    assert utilization_at_rest(None) is None
