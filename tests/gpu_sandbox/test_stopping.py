"""Stopping all processes of a worker, whoever their parents are, and letting them go on."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from gpu_sandbox.confine import freeze as stopping
from gpu_sandbox.confine.freeze import Stoppable, Unstoppable

pytestmark = pytest.mark.process

JAIL_INIT = """
import ctypes, os, signal, subprocess, sys, threading, time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0

def forked(work):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            work()
        finally:
            os._exit(0)
    return pid

def burn():
    while True:
        pass

def rest():
    time.sleep(1000)

def sleep_beside_a_burning_thread():
    threading.Thread(target=burn, daemon=True).start()
    rest()

def fork_for_ever():
    while True:
        if pid := os.fork():
            os.waitpid(pid, 0)
        else:
            os._exit(0)

def change_for_ever():  # who is looked at is never who is at work
    while True:
        if os.fork():
            os._exit(0)

def wake_its_parent_for_ever():
    while True:
        os.kill(os.getppid(), signal.SIGCONT)

def start_programs_for_ever():  # by vfork, so that it waits in the kernel for its child
    while True:
        subprocess.run(["/bin/true"])

def work():
    os.setsid()
    for each in KINDS:
        forked(lambda: (forked(globals()[each]), rest()))
    rest()

OWN = "own_fork"  # of the jail init's own
KINDS = [kind for kind in sys.argv[1:] if kind != OWN]
worker = forked(work)
while os.getsid(worker) != worker:
    time.sleep(0.001)
if OWN in sys.argv:
    forked(rest)
print(worker, flush=True)
rest()
"""


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[int, int]]]:
    """A jail init and its worker, which starts children of the named kinds: their pids."""
    started: list[subprocess.Popen[str]] = []
    workers: dict[int, int] = {}

    def begin(*kinds: str) -> tuple[int, int]:
        command = [sys.executable, "-c", JAIL_INIT, *kinds]
        made = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(made)
        assert made.stdout is not None
        workers[made.pid] = int(made.stdout.readline())
        return made.pid, workers[made.pid]

    yield begin
    for made in started:
        for group in workers[made.pid], made.pid:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        made.wait()
        assert made.stdout is not None
        made.stdout.close()


def below(root: int) -> list[int]:
    """Those that have not ended meanwhile."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{root}/task"):
            for pid in map(int, Path(f"/proc/{root}/task/{thread}/children").read_text().split()):
                found += [pid, *below(pid)]
    return found


def states(pid: int) -> set[str]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {facts(thread)[0] for thread in threads}


def facts(place: Path) -> list[str]:
    """State and parent of a process or a thread, and more."""
    return (place / "stat").read_text().rpartition(")")[2].split()


def used_ns(pid: int) -> int:
    return time.clock_gettime_ns((~pid << 3) | 2)


def at_work_since(before: dict[int, int]) -> int:
    """How many have used more than a millisecond of a processor. Who is seen stopped may still have
    to leave its own, which takes some microseconds."""
    return sum(used_ns(pid) > used + 1_000_000 for pid, used in before.items())


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_below_the_jail_init_lie_still_and_go_on_afterwards(
    start: Callable[..., tuple[int, int]],
) -> None:
    kinds = ("burn", "sleep_beside_a_burning_thread", "rest")
    init, worker = start(*kinds)
    wait_until(lambda: len(below(init)) == 1 + 2 * len(kinds))
    stoppable = Stoppable(worker)
    for _ in range(3):
        with stoppable.stopped():
            all_of_them = below(init)
            assert len(all_of_them) == 1 + 2 * len(kinds)
            before = {pid: used_ns(pid) for pid in all_of_them}
            time.sleep(0.05)
            assert all(states(pid) == {"T"} for pid in all_of_them)
            assert at_work_since(before) == 0
            assert states(init) == {"S"}
        wait_until(lambda: not any("T" in states(pid) for pid in below(init)))
        wait_until(partial(lambda used: at_work_since(used) == 2, before))


@pytest.mark.parametrize("kind", ["fork_for_ever", "change_for_ever", "wake_its_parent_for_ever"])
def test_who_forks_or_wakes_another_is_stopped_too(
    start: Callable[..., tuple[int, int]], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or is unstoppable, who ends sooner than it is found."""
    monkeypatch.setattr("gpu_sandbox.confine.freeze._WITHIN_S", 1.0)
    init, worker = start(kind)
    wait_until(lambda: len(below(init)) >= 3)
    stoppable, seen = Stoppable(worker), set()
    for _ in range(10):
        evades = Unstoppable if kind == "change_for_ever" else ()
        with suppress(evades), stoppable.stopped():
            all_of_them = below(init)
            before = {pid: used_ns(pid) for pid in all_of_them}
            time.sleep(0.02)
            assert all_of_them == below(init)
            assert all(states(pid) <= {"T", "Z"} for pid in all_of_them)
            assert at_work_since(before) == 0
            seen |= set(all_of_them)
        time.sleep(0.01)
    assert worker in seen or (kind == "change_for_ever" and not seen)
    wait_until(lambda: states(worker) == {"S"})


def test_who_loses_its_parent_is_stopped_too(start: Callable[..., tuple[int, int]]) -> None:
    init, worker = start("burn")
    wait_until(lambda: len(below(init)) == 3)
    stoppable = Stoppable(worker)
    between, orphan = below(init)[1:]
    os.kill(between, signal.SIGKILL)
    wait_until(lambda: int(facts(Path(f"/proc/{orphan}"))[1]) == init)
    with stoppable.stopped():
        assert states(worker) == states(orphan) == {"T"}


def test_who_starts_programs_is_stopped_too(start: Callable[..., tuple[int, int]]) -> None:
    """A new process that is stopped before it is the program keeps its parent in the kernel."""
    init, worker = start(*["start_programs_for_ever"] * 3)
    wait_until(lambda: len(below(init)) >= 4)
    stoppable = Stoppable(worker)
    for _ in range(20):
        with stoppable.stopped() as still:
            assert all(states(pid) <= {"T", "Z"} for pid in below(init))
            assert still.used_ns() < 1_000_000
        time.sleep(0.005)


def test_a_thread_that_is_gone_when_it_is_looked_at_was_at_work(
    start: Callable[..., tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have started the next one."""
    monkeypatch.setattr("gpu_sandbox.confine.freeze._WITHIN_S", 0.2)
    init, worker = start("rest")
    wait_until(lambda: len(below(init)) == 3)
    seen = stopping._threads
    gone = str(2**22 + 1)  # beyond all numbers
    monkeypatch.setattr(stopping, "_threads", lambda pid: [gone] if pid == worker else seen(pid))
    with pytest.raises(Unstoppable), Stoppable(worker).stopped():
        raise AssertionError("it was not stopped")


def test_who_seems_to_lie_still_but_uses_a_processor_is_unstoppable(
    start: Callable[..., tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks at many processes take time, in which one may wake the next and stop itself."""
    monkeypatch.setattr("gpu_sandbox.confine.freeze._WITHIN_S", 0.2)
    used = itertools.count()
    monkeypatch.setattr("gpu_sandbox.confine.freeze._used_ns", lambda _: next(used))
    init, worker = start("rest")
    wait_until(lambda: len(below(init)) == 3)
    with pytest.raises(Unstoppable), Stoppable(worker).stopped():
        raise AssertionError("it was not stopped")


def test_what_is_used_of_a_processor_while_all_are_stopped_is_told(
    start: Callable[..., tuple[int, int]],
) -> None:
    init, worker = start("burn")
    wait_until(lambda: len(below(init)) == 3)
    with Stoppable(worker).stopped() as still:
        assert still.used_ns() < 1_000_000
        os.kill(below(init)[-1], signal.SIGCONT)
        wait_until(lambda: still.used_ns() > 5_000_000)


def test_children_of_one_with_the_number_of_another_that_is_gone_are_found(
    start: Callable[..., tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of children that was opened of one that is gone is empty, and no error. Numbers come
    again: who takes as many as there are had children that nobody stopped."""
    init, worker = start("burn")
    wait_until(lambda: len(below(init)) == 3)
    between, burning = below(init)[1:]
    gone = subprocess.Popen(["sleep", "1000"])
    stale = os.open(f"/proc/{gone.pid}/task/{gone.pid}/children", os.O_RDONLY)
    gone.kill()
    gone.wait()
    monkeypatch.setitem(stopping._files._open, f"/proc/{between}/task/{between}/children", stale)
    with Stoppable(worker).stopped():
        assert states(burning) == {"T"}


def test_who_stays_in_the_kernel_is_unstoppable(
    start: Callable[..., tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other processes are let go on."""
    monkeypatch.setattr("gpu_sandbox.confine.freeze._WITHIN_S", 0.2)
    monkeypatch.setattr("gpu_sandbox.confine.freeze._is_frozen", lambda pid: pid != worker)
    init, worker = start("rest")
    wait_until(lambda: len(below(init)) == 3)
    with pytest.raises(Unstoppable), Stoppable(worker).stopped():
        raise AssertionError("it was not stopped")
    wait_until(lambda: all(states(pid) == {"S"} for pid in below(init)))


def test_the_jail_inits_own_forks_go_on(start: Callable[..., tuple[int, int]]) -> None:
    """They look after memory: who stopped them would be told that nobody answers, and the
    candidate be charged with what they use."""
    init, worker = start("rest", "own_fork")
    wait_until(lambda: len(below(init)) == 4)
    (own,) = {pid for pid in below(init) if os.getsid(pid) == init}
    wait_until(lambda: states(own) == {"S"})
    with Stoppable(worker).stopped() as still:
        assert states(worker) == {"T"}
        assert states(own) == {"S"}
        assert still.used_ns() < 1_000_000


def test_a_kernel_that_lists_no_children_is_refused(
    start: Callable[..., tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or nobody would be stopped, and nobody told."""
    _, worker = start("rest")
    stoppable = Stoppable(worker)
    monkeypatch.setattr(stopping, "_children", lambda pid: [])
    with pytest.raises(ProcessLookupError), stoppable.stopped():
        raise AssertionError("nobody was stopped")
    with pytest.raises(NotImplementedError, match="does not list"):
        Stoppable(worker)


def test_a_worker_without_a_jail_init_is_refused() -> None:
    """Or whatever descends from one of ours would be stopped."""
    with pytest.raises(ProcessLookupError, match="no jail init"):
        Stoppable(os.getpid())


def test_a_worker_that_has_ended_is_refused(start: Callable[..., tuple[int, int]]) -> None:
    _, worker = start()
    stoppable = Stoppable(worker)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{worker}").exists())
    with pytest.raises((FileNotFoundError, ProcessLookupError)), stoppable.stopped():
        raise AssertionError("there was nobody to stop")
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        Stoppable(worker)
