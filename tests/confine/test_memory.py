"""Memory ends with the candidate: by a control group, or watched where none limits it."""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpu_sandbox.confine import cgroup_reclaim as leftovers
from gpu_sandbox.confine import memory_watch as memory
from gpu_sandbox.confine import processes, survey, syscalls
from gpu_sandbox.confine.attacks import excess
from gpu_sandbox.confine.cgroups import Group
from gpu_sandbox.confine.memory_watch import HeldMemory
from gpu_sandbox.confine.policy import Layer
from tests.confine.jails import (
    MIB,
    NAMESPACES,
    a_policy,
    eventually,
    found,
    group_directories,
    in_zygote,
    need,
    run,
    running,
    skip,
    usable,
)

pytestmark = pytest.mark.process


@in_zygote
def test_memory_ends_with_the_candidate_not_the_host() -> None:
    need("cgroup")

    def main() -> None:
        held = bytearray(400 * MIB)
        for offset in range(0, len(held), 4096):
            held[offset] = 1

    status, _ = run(main, a_policy(memory_bytes=100 * MIB))
    assert status.signal == signal.SIGKILL
    assert status.out_of_memory
    assert run(main)[0].code == 0

    def addresses() -> None:
        with pytest.raises(MemoryError):
            bytearray(3 << 30)

    status, text = run(addresses, a_policy(address_space=True, memory_bytes=2 << 30))
    assert status.code == 0, text

    def less_than_it_begins_with() -> None:
        assert len(bytearray(5 * MIB)) == 5 * MIB
        addresses()

    status, text = run(less_than_it_begins_with, a_policy(address_space=True, memory_bytes=8 * MIB))
    assert status.code == 0, text


def touch(mib: int) -> bytearray:
    held = bytearray(mib * MIB)
    for offset in range(0, len(held), 4096):
        held[offset] = 1
    return held


def fill_alone() -> None:
    held = touch(400)
    time.sleep(100)
    assert held


def fill_by_many() -> None:
    """None of them takes much, and all are daemons."""
    for _ in range(8):
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.setsid()
            if os.fork() == 0:
                held = touch(40)
                time.sleep(100)
                assert held
            os._exit(0)
    time.sleep(100)


def fill_what_is_shared() -> None:
    held = mmap.mmap(-1, 400 * MIB)
    for offset in range(0, len(held), 4096):
        held[offset] = 1
    time.sleep(100)


def fill_files_in_memory() -> None:
    """Never mapped: no process has them in its size."""
    files = [os.memfd_create(f"file{number}") for number in range(8)]
    for file in files:
        for _ in range(50):
            os.write(file, b"x" * MIB)
    time.sleep(100)


def fill_with_page_tables() -> None:
    """A page of them for two megabytes of nothing: what is read only has no page of its own."""
    no_reserve = 0x4000
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    held = mmap.mmap(-1, 120 << 30, flags=flags)
    for offset in range(0, len(held), 2 * MIB):
        assert held[offset] == 0
    time.sleep(100)


def fill_sockets(*, close: bool = False) -> None:
    """With what nobody receives, and nobody may have sent any more."""
    kept = []
    for _ in range(7):
        if os.fork() == 0:
            break
    for _ in range(110):
        sender, receiver = socket.socketpair()
        sender.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                sender.send(b"x" * 32768)
        kept.append(receiver)
        if not close:
            kept.append(sender)
    time.sleep(100)


def fill_sockets_and_close_them() -> None:
    fill_sockets(close=True)


def fill_by_writing_to_what_is_shared() -> None:
    """What each process holds is the same before and after."""
    held = touch(60)
    for _ in range(6):
        if os.fork() == 0:
            time.sleep(0.5)
            for offset in range(0, len(held), 4096):
                held[offset] = 2
            time.sleep(100)
    time.sleep(100)


def share_with_forks() -> None:
    """What forks have in common is there once."""
    held = touch(60)
    for _ in range(4):
        if os.fork() == 0:
            time.sleep(0.5)
            os._exit(0)
    for _ in range(4):
        os.wait()
    assert held


def names_looked_up_in_vain() -> int:
    """That the kernel remembers, of the whole machine."""
    return int(Path("/proc/sys/fs/dentry-state").read_text().split()[4])


@in_zygote
def test_the_kernel_gives_back_what_it_remembers_of_a_jail() -> None:
    need("cgroup")
    ready, write = os.pipe()
    many, mine = 400_000, os.urandom(40).hex()

    def main() -> None:
        for number in range(many):
            os.access(f"/usr/lib/{mine}-{number}", os.F_OK)
        os.write(write, b"x")
        time.sleep(100)

    before = names_looked_up_in_vain()
    with running(main, keep_fds=(write,)) as it:
        assert os.read(ready, 1) == b"x"
        assert names_looked_up_in_vain() > before + many * 0.9
        it.jail.end()
        assert not it.jail.stuck
    assert eventually(lambda: names_looked_up_in_vain() < before + many * 0.5)
    assert leftovers.finished_within(30.0)
    assert processes.children(os.getpid()) == []
    assert group_directories() == []


@in_zygote
def test_memory_that_is_watched_ends_with_the_whole_jail() -> None:
    watched = survey(without=("cgroup",))
    assert "memory:watched" in watched.layers, watched.missing
    assert [f.held for f in watched.findings if f.attack == "fill the memory"] == [True, True]
    policy = functools.partial(a_policy, memory_bytes=100 * MIB)
    fills = [fill_alone, fill_by_many, fill_what_is_shared, fill_with_page_tables]
    if "namespaces:net" in watched.layers:
        fills += [fill_sockets, fill_sockets_and_close_them]
    if not syscalls.lacks(19):
        fills += [fill_files_in_memory, fill_by_writing_to_what_is_shared]
    for fill in fills:
        status, text = run(fill, policy(), watched)
        assert (status.signal, status.out_of_memory) == (signal.SIGKILL, True), (fill, text)
        assert processes.children(os.getpid()) == []
    if not syscalls.lacks(19):
        status, text = run(share_with_forks, policy(), watched)
        assert (status.code, status.out_of_memory) == (0, False), text

    flat = tuple(layer for layer in watched.layers if layer not in NAMESPACES)
    open_jails = usable(msgspec.structs.replace(watched, layers=flat))
    syscalls.keep_only(~(1 << 19))  # what it takes to look closer
    for fill in (fill_alone, fill_by_many):
        for layers in (watched, open_jails):
            status, text = run(fill, policy(), layers)
            assert (status.signal, status.out_of_memory) == (signal.SIGKILL, True), (fill, text)
            assert processes.children(os.getpid()) == []
    status, text = run(lambda: print(len(touch(50))), policy(), watched)
    assert (status.code, status.out_of_memory) == (0, False), text


@in_zygote
def test_who_keeps_the_kernel_from_answering_has_what_was_seen_counted() -> None:
    """As by mapping memory without end, for which the exact account waits."""

    def never(*_: object) -> int:
        time.sleep(100)
        return 0

    HeldMemory._exact_sum = never
    memory._EXACT_S = 0.2
    held = HeldMemory()
    sleeper = os.fork()
    if sleeper == 0:
        time.sleep(100)
    assert not held.exceeds(1 << 40)
    assert not held.exceeds(-(1 << 40)), "it may have been the machine"
    assert held.exceeds(-(1 << 40))
    os.kill(sleeper, signal.SIGKILL)
    os.waitpid(sleeper, 0)
    assert processes.children(os.getpid()) == []


@in_zygote
def test_who_shares_much_has_time_to_be_counted_and_is_not_counted_all_the_time() -> None:
    if syscalls.lacks(19):
        skip("who may not look closer has no exact account")
    asked, left = 0, 64 << 30
    real, answered = HeldMemory._exact_sum, memory._answered_by_fork

    def slow(*arguments: Any) -> int | None:
        time.sleep(0.5)
        return real(*arguments)

    def counted(*arguments: Any, **options: Any) -> int | None:
        nonlocal asked
        asked += 1
        return answered(*arguments, **options)

    HeldMemory._exact_sum = slow
    HeldMemory._free_bytes = lambda _: left
    memory._answered_by_fork = counted
    memory._EXACT_S, memory._EXACT_S_PER_GB, memory._HOLDS = 0.0, 20, 1000
    held = HeldMemory()
    ready, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        block = touch(100)
        for _ in range(5):
            if os.fork() == 0:
                break
        os.write(write, b"x")
        time.sleep(100)
        assert block
    told = 0
    while told < 6:
        told += len(os.read(ready, 6))
    for _ in range(5):
        assert not held.exceeds(200 * MIB)
    assert asked == 1
    left -= 150 * MIB  # more than it had left to its limit
    assert not held.exceeds(200 * MIB)
    assert asked == 2
    processes.kill(processes.descendants(os.getpid()))
    os.waitpid(parent, 0)


@in_zygote
def test_memory_is_watched_where_a_control_group_does_not_limit_it() -> None:
    need("cgroup")
    assert Layer.WATCH not in found().layers
    real = Group.limit
    Group.limit = lambda *_: None
    result = survey()
    assert "take too much memory" in result.missing["cgroup"]
    assert Layer.WATCH in result.layers
    Group.limit = real
    HeldMemory.exceeds = lambda *_: False
    excess._SEEN_S = 0.3
    result = survey(without=("cgroup",))
    assert "an attack got through (fill the memory" in result.missing[Layer.WATCH]


_MANY = 900
_MANY_CHILDREN = f"""
import os, time
for _ in range({_MANY}):
    if os.fork() == 0:
        time.sleep(1000)
print(flush=True)
time.sleep(1000)
"""


@in_zygote
def test_children_are_counted_however_many_there_are() -> None:
    """The kernel lists no more than 819 in one reading, and the last may hold the most."""
    held = HeldMemory()
    command = [sys.executable, "-c", _MANY_CHILDREN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as made:
        try:
            assert made.stdout is not None
            made.stdout.readline()
            assert len(list(held._descendants())) == 1 + _MANY
        finally:
            os.killpg(made.pid, signal.SIGKILL)
