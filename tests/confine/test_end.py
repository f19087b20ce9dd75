"""What a jail does to get away, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_sandbox.confine import (
    processes,
    spawn,
)
from tests.confine.jails import (
    NAMESPACES,
    a_policy,
    alive,
    eventually,
    found,
    group_directories,
    in_zygote,
    need,
    run,
    running,
    scatter,
    usable,
    without,
)

pytestmark = pytest.mark.process


@in_zygote
def test_sigterm_is_answered_or_followed_by_sigkill() -> None:
    read, write = os.pipe()

    def polite() -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        os.write(write, b"x")
        time.sleep(60)

    def deaf() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(write, b"x")
        while True:
            pass

    for main, code, number in ((polite, 5, None), (deaf, None, signal.SIGKILL)):
        with running(main, keep_fds=(write,)) as it:
            os.read(read, 1)
            assert not it.jail.ended()
            began = time.monotonic()
            status = it.jail.end(0.2 if main is deaf else 5.0)
            assert time.monotonic() - began < 30  # of the sixty that it would sleep
            assert (status.code, status.signal) == (code, number)


@in_zygote
def test_no_daemon_outlives_its_jail() -> None:
    for layers in ((), ("namespaces:pid",), ("namespaces:pid", "cgroup"), NAMESPACES):
        read, write = os.pipe()

        def main(write: int = write) -> None:
            scatter(write)

        policy = a_policy()
        with running(main, policy, usable(without(*layers)), keep_fds=(write,)) as it:
            os.close(write)
            it.text()
            assert it.jail.ended(30.0), layers
            assert it.jail.end().code == 0
        assert os.read(read, 9) == b"x"
        assert os.read(read, 9) == b""  # all ends of the pipe are closed
        os.close(read)
        assert processes.children(os.getpid()) == []


@in_zygote
def test_a_jail_init_killed_from_outside_takes_its_jail_along() -> None:
    for layers in ((), ("namespaces:pid",), ("namespaces:pid", "cgroup"), NAMESPACES):
        read, write = os.pipe()

        def main(write: int = write) -> None:
            scatter(write)
            time.sleep(300)

        with running(main, a_policy(), usable(without(*layers)), keep_fds=(write,)) as it:
            os.close(write)
            assert os.read(read, 1) == b"x"
            os.kill(it.jail.init_pid, signal.SIGKILL)
            assert it.jail.ended(30.0)
            status = it.jail.end()
            assert (status.code, status.signal, it.jail.stuck) == (None, None, False)
            it.text()
        assert os.read(read, 9) == b""
        os.close(read)
        assert processes.children(os.getpid()) == []
        assert group_directories() == []


@in_zygote
def test_a_flood_is_no_obstacle() -> None:
    def main() -> None:
        while True:
            os.write(1, b"x" * 65536)

    with running(main) as it:
        time.sleep(0.1)
        assert it.jail.end().signal == signal.SIGTERM


@in_zygote
def test_a_fork_bomb_stays_small() -> None:
    need("cgroup")
    for layers in ((), ("rlimits",), ("cgroup",)):
        if layers == ("cgroup",) and "uid" not in found().layers:
            continue

        def main() -> None:
            for _ in range(4):
                with contextlib.suppress(OSError):
                    while True:
                        if os.fork() == 0:
                            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(100)

        with running(main, a_policy(processes=40), without(*layers)) as it:
            init = it.jail.init_pid
            assert eventually(lambda w=init: len(processes.descendants(w)) > 20), layers
            time.sleep(0.3)
            count = len(processes.descendants(init))
            assert 20 < count <= 40, (layers, count)
            it.jail.end(0.05)
            assert not it.jail.stuck
            it.text()
        assert processes.children(os.getpid()) == []


@in_zygote
def test_a_forged_report_is_not_believed() -> None:
    """The channel is closed before the candidate runs, and its jail init can't be reached."""

    def main() -> None:
        for fd in range(3, 256):
            with pytest.raises(OSError, match="Bad file"):
                os.write(fd, b"\x81\xa4type\xa5ended")
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(3)

    assert run(main)[0].code == 3
    if "landlock" in found().layers:
        assert run(main, a_policy(), usable(without(*NAMESPACES)))[0].code == 3


@in_zygote
def test_two_hundred_jails_leave_nothing() -> None:
    fds = os.listdir("/proc/self/fd")
    mounts = Path("/proc/self/mountinfo").read_text()
    policy = a_policy()
    with open(os.devnull, "wb") as output:
        for index in range(200):
            jail = spawn(
                policy,
                found(),
                lambda: os._exit(4) if os.fork() else time.sleep(100),
                output_fd=output.fileno(),
                environment={},
            )
            if index % 2:
                assert jail.ended(30)
                assert jail.end().code == 4
            else:
                jail.end()
            assert not jail.stuck
    assert os.listdir("/proc/self/fd") == fds
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert processes.children(os.getpid()) == []
    assert group_directories() == []


@in_zygote
def test_a_killed_zygote_leaves_nothing(tmp_path: Path) -> None:
    for layers in ((), ("namespaces:pid",), NAMESPACES):
        kept = usable(without(*layers))
        read, write = os.pipe()
        zygote = os.fork()
        if zygote == 0:

            def main(write: int = write) -> None:
                scatter(write)
                time.sleep(300)

            options: dict[str, Any] = {"output_fd": 1, "keep_fds": (write,), "environment": {}}
            jails = [spawn(a_policy(), kept, main, **options) for _ in range(3)]
            time.sleep(300)
            assert jails
            os._exit(0)
        os.close(write)
        try:
            for _ in range(3):
                assert os.read(read, 1) == b"x"
            pids = processes.descendants(zygote)
            assert len(pids) >= 3 * 6
            assert len(group_directories(zygote)) == 3 * len(kept.machine.hierarchies)
        finally:
            os.kill(zygote, signal.SIGKILL)
            os.waitpid(zygote, 0)
        assert eventually(lambda pids=pids: not any(alive(pid) for pid in pids)), layers
        assert os.read(read, 9) == b""
        assert eventually(lambda zygote=zygote: group_directories(zygote) == [])
        os.close(read)
