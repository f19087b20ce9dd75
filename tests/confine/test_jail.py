"""The ordinary life of a jail."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
import time
from pathlib import Path

import pytest

from gpu_sandbox.confine import (
    Status,
    syscalls,
)
from tests.confine.jails import (
    ENDS,
    ENVIRONMENT,
    a_policy,
    found,
    in_zygote,
    need,
    run,
    running,
)

pytestmark = pytest.mark.process


@in_zygote
def test_a_jail_starts_clean(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    leaked = os.open(secret, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    kept_read, kept_write = os.pipe()
    policy = a_policy()
    outer = os.getpid()

    def main() -> None:
        assert os.environ == ENVIRONMENT
        assert os.getcwd() == policy.home
        assert [fd for fd in range(256) if _is_open(fd)] == [0, 1, 2, kept_write]
        assert sys.stdin.read() == ""
        assert os.getsid(0) == os.getpid() != outer
        assert syscalls.prctl(3) == 0  # not dumpable
        assert syscalls.held_capabilities() == 0
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
        if "uid" in found().layers:
            assert os.getresuid()[0] > 10000
            assert os.getgroups() in ([], [os.getgid()])
        Path("made").write_text("here")
        os.write(kept_write, b"kept")
        print("printed")
        os.write(2, b"to error\n")

    signal.signal(signal.SIGTERM, lambda *_: None)
    print("zygote's own line")  # in Python's buffer when it forks
    with running(main, policy, keep_fds=(kept_write,)) as it:
        assert it.jail.layers == found().layers
        assert it.jail.pid > 0
        text = it.text()
        assert text.splitlines() == ["printed", "to error"], text
        assert it.jail.end() == it.jail.status
        assert (it.jail.status, it.jail.stuck) == (Status(code=0), False)
    assert os.read(kept_read, 9) == b"kept"
    if "namespaces:mount" in found().layers:
        assert os.listdir(policy.home) == []


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@in_zygote
def test_the_exact_end_is_reported() -> None:
    for name, (main, code, number) in ENDS.items():
        status, text = run(main)
        assert (status.code, status.signal) == (code, number), (name, status, text)
        assert not status.out_of_memory
    assert "as told" in run(ENDS["raises"][0])[1]


@in_zygote
def test_c_output_survives() -> None:
    def main() -> None:
        ctypes.CDLL(None).puts(b"from C")

    assert run(main)[1] == "from C\n"


@in_zygote
def test_cores_stick() -> None:
    core = min(os.sched_getaffinity(0))

    def main() -> None:
        assert os.sched_getaffinity(0) == {core}
        with contextlib.suppress(PermissionError):
            os.sched_setaffinity(0, range(64))
        assert os.sched_getaffinity(0) == {core}

    need("seccomp")
    status, text = run(main, a_policy(affinity=(core,)))
    assert status.code == 0, text


@in_zygote
def test_how_it_is_scheduled_is_nobodys_to_tune() -> None:
    """A longer slice, or a clock that does not fall: neither would need a right."""

    def main() -> None:
        slice_ns = 100_000_000
        wanted = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, os.nice(0), 0, slice_ns, 0, 0)
        with pytest.raises(PermissionError):
            syscalls.call("sched_setattr", 0, wanted, 0)
        print("refused")

    need("seccomp")
    status, text = run(main)
    assert status.code == 0, text
    assert text == "refused\n"


@in_zygote
def test_files_that_others_need_stay_in_memory() -> None:
    """Nor does it see which are: that could be a note for the next one."""
    need("seccomp")

    def is_in_memory() -> bool:
        with open(os.__file__, "rb") as file:
            return os.preadv(file.fileno(), [bytearray(512)], 0, os.RWF_NOWAIT) == 512

    def main() -> None:
        with open(os.__file__, "rb") as file:
            assert os.preadv(file.fileno(), [bytearray(512)], 0) == 512
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for name, arguments in (
                ("preadv2", (bytes(16), 0, 0, 0, os.RWF_NOWAIT)),
                ("cachestat", ()),
            ):
                with pytest.raises(OSError, match=name):
                    syscalls.call(name, file.fileno(), *arguments)
        print("as before")

    Path(os.__file__).read_bytes()
    try:
        assert is_in_memory()
    except OSError:
        pytest.skip("a file system that does not tell")
    assert run(main)[1] == "as before\n"
    assert is_in_memory()


@in_zygote
def test_jails_do_not_meet() -> None:
    """Two at once, with the same home: other files, other users, other processes."""
    need("namespaces:mount", "namespaces:pid")
    policy = a_policy()
    read, write = os.pipe()

    def first() -> None:
        Path("mine").write_text("x")
        os.write(write, b"x")
        time.sleep(60)

    def second() -> None:
        assert os.listdir(policy.home) == []
        assert not any(os.path.exists(f"/proc/{n}") for n in range(3, 40))

    with running(first, policy, keep_fds=(write,)) as one:
        os.read(read, 1)
        status, text = run(second, policy)
        assert status.code == 0, text
        outer = Path(f"/proc/{one.jail.pid}/status").read_text()
        if "uid" in found().layers:
            assert f"Uid:\t{2_000_000}"[:6] in outer
            assert os.stat(f"/proc/{one.jail.init_pid}").st_uid == 0
