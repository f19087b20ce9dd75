"""Jails that share what others have: whom they could reach."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import mmap
import os
import resource
import shutil
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_sandbox.confine import seccomp_filter as seccomp
from gpu_sandbox.confine import survey, syscalls
from gpu_sandbox.confine.syscall_numbers import NUMBERS
from tests.confine.jails import NAMESPACES, a_policy, found, in_zygote, need, run, skip

pytestmark = pytest.mark.process


@in_zygote
def test_without_files_of_its_own_a_jail_meets_nobody_over_sockets() -> None:
    """With a device it makes those of a driver, named as a driver's are, until it gives them up:
    in threads that are there already, too."""
    need("seccomp")
    name = f"\0test-{os.getpid()}"
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(f"{name}-server")
    server.listen()
    mailbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    mailbox.bind(f"{name}-mailbox")

    def able(what: Callable[[], object]) -> bool:
        try:
            what()
        except BlockingIOError:  # it would wait
            return True
        except OSError:
            return False
        return True

    def attempts(told: str) -> None:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        done, own = [], pair[0]
        for kind in ("SOCK_STREAM", "SOCK_SEQPACKET"):
            with contextlib.suppress(OSError):
                made = socket.socket(socket.AF_UNIX, getattr(socket, kind))
                own.close()
                done, own = [*done, kind], made
        own.setblocking(False)
        if done:  # else it is one of the pair, which may talk to the other
            done += ["send"] if able(lambda: own.sendto(b"hello", f"{name}-server")) else []
        done += ["connect"] if able(lambda: own.connect(f"{name}-server")) else []
        done += ["bind"] if able(lambda: own.bind(f"{name}-{told}")) else []
        done += [word for word in ("listen", "accept") if able(getattr(own, word))]
        for kind in ("SOCK_DGRAM", "SOCK_RAW"):  # which the kernel takes for the same
            with contextlib.suppress(OSError):
                one, other = socket.socketpair(socket.AF_UNIX, getattr(socket, kind))
                done.append(f"pair of {kind}")
                if able(lambda one=one: one.sendto(b"hello", f"{name}-mailbox")):
                    done.append("mail")
                one.close()
                other.close()
        print(f"{told}: {' '.join(done)}", flush=True)
        for each in (own, *pair):
            each.close()

    def main() -> None:
        attempts("before")
        turn = threading.Event()
        other = threading.Thread(target=lambda: (turn.wait(), attempts("a thread")))
        other.start()
        seccomp.give_up_driver_sockets()
        attempts("after")
        turn.set()
        other.join()

    bare = survey(without=NAMESPACES)
    with_device = a_policy(devices=("/dev/full",))
    _, text = run(main, with_device, bare)
    assert text == "before: SOCK_SEQPACKET bind listen\nafter: \na thread: \n"
    _, text = run(main, a_policy(), bare)
    assert text == "before: \nafter: \na thread: \n"
    if {"namespaces:mount", "namespaces:net"} <= set(found().layers):
        _, text = run(main, with_device)
        pairs = "pair of SOCK_DGRAM pair of SOCK_RAW"
        kept = f"SOCK_STREAM SOCK_SEQPACKET bind listen accept {pairs}\n"
        assert text == f"before: {kept}after: {kept}a thread: {kept}", text


@in_zygote
def test_without_a_user_of_its_own_a_jail_changes_nobody_elses_limits() -> None:
    def main() -> None:
        init = os.getppid()
        batch = (os.SCHED_BATCH, os.sched_param(0))
        for change in (
            lambda: os.setpriority(os.PRIO_PROCESS, init, 5),
            lambda: os.setpriority(os.PRIO_USER, 0, 5),
            lambda: os.sched_setscheduler(init, *batch),
            lambda: os.sched_setparam(init, os.sched_param(0)),
            lambda: resource.prlimit(init, resource.RLIMIT_NOFILE),
        ):
            with pytest.raises(PermissionError):
                change()
        os.nice(1)
        os.sched_setscheduler(0, *batch)
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        print("itself it may")

    status, text = run(main, survey_=survey(without=(*NAMESPACES, "uid")))
    assert status.code == 0, text
    assert text == "itself it may\n"


@in_zygote
def test_without_a_user_of_its_own_a_jail_writes_the_names_of_its_threads_only() -> None:
    """As CUDA's driver does while it starts, in threads that came after the rule."""
    need("landlock", "no-new-privs")
    other = os.getpid()
    kinds = ("oom_score_adj", "autogroup", "coredump_filter", "clear_refs", "comm")

    def writes(path: str) -> bool:
        try:
            os.close(os.open(path, os.O_WRONLY))
        except PermissionError:
            return False
        return True

    def main() -> None:
        others = [f"/proc/{pid}/{kind}" for kind in kinds for pid in (other, os.getpid())]
        others += [f"/proc/{other}/task/{other}/{kind}" for kind in kinds]
        assert [path for path in others if os.path.exists(path) and writes(path)] == []
        turn, done = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: (done.set(), turn.wait()))
        thread.start()
        done.wait()
        for tid in (os.getpid(), thread.native_id):
            Path(f"/proc/self/task/{tid}/comm").write_text("named")
            assert Path(f"/proc/self/task/{tid}/comm").read_text() == "named\n"
        turn.set()
        thread.join()
        pid = os.fork()
        if pid == 0:
            os._exit(writes(f"/proc/self/task/{os.getpid()}/comm"))
        assert os.waitpid(pid, 0)[1] == 0
        print("its own threads")

    status, text = run(main, survey_=survey(without=(*NAMESPACES, "uid")))
    assert (status.code, text) == (0, "its own threads\n"), text


@in_zygote
def test_without_files_of_its_own_a_jail_leaves_no_notes(tmp_path: Path) -> None:
    """In attributes, which no right of Landlock's is about. Who copies files does not mind."""
    need("seccomp")
    note = tmp_path / "note"
    note.touch()
    try:
        os.setxattr(note, "user.note", b"from the zygote")
    except OSError as error:
        skip(f"{tmp_path}: {error}")
    libc = ctypes.CDLL(None, use_errno=True)

    def main() -> None:
        for try_ in (
            lambda: os.setxattr(note, "user.note", b"x"),
            lambda: os.setxattr(note, "user.note", b"x", follow_symlinks=False),
            lambda: os.setxattr(0, "user.note", b"x"),
            lambda: os.getxattr(note, "user.note"),
            lambda: os.listxattr(note),
            lambda: os.removexattr(note, "user.note"),
        ):
            with pytest.raises(OSError, match="not supported") as refused:
                try_()
            assert refused.value.errno == errno.ENOTSUP
        assert libc.inotify_init1(0) == -1
        assert ctypes.get_errno() == errno.EPERM
        Path("own").write_text("x")
        with pytest.raises(PermissionError):
            os.chown("own", -1, -1)
        shutil.copy2("own", "copy")
        assert os.spawnlp(os.P_WAIT, "cp", "cp", "-a", "own", "another") == 0
        print("no notes")

    status, text = run(main, survey_=survey(without=NAMESPACES))
    assert (status.code, text) == (0, "no notes\n"), text
    assert os.getxattr(note, "user.note") == b"from the zygote"


@in_zygote
def test_as_ones_own_user_a_jail_opens_no_file_to_others_and_takes_none_away(
    tmp_path: Path,
) -> None:
    """Landlock has no right for that. Compilers make programs all the same, and who copies goes
    on."""
    need("seccomp")
    theirs = tmp_path / "theirs"
    theirs.write_text("x")
    theirs.chmod(0o640)
    before, around = theirs.stat(), tmp_path.stat()
    when_root = (0o700,) if os.geteuid() == 0 else ()
    libc = ctypes.CDLL(None, use_errno=True)

    def main() -> None:
        opened = os.open(theirs, os.O_PATH)
        modes = (0o666, 0o644, 0o600, 0, 0o4700, 0o100, 0o640 | 1 << 16, *when_root)
        for mode in modes:
            os.chmod(tmp_path, mode)
            os.chmod(theirs, mode)
            os.chmod(opened, mode)
            os.chmod(theirs.name, mode, dir_fd=os.open(tmp_path, os.O_PATH))
            assert libc.syscall(452, -100, str(theirs).encode(), mode, 0) == 0
        os.utime(theirs, (1, 1))
        os.utime(opened)
        for request in (0x40086602, 0x401C5820, 0x40087602):
            with pytest.raises(PermissionError):
                fcntl.ioctl(opened, request, bytes(32))
        for command in (fcntl.F_SETLEASE, fcntl.F_NOTIFY):
            with pytest.raises(PermissionError):
                fcntl.fcntl(opened, command, 1)
        assert fcntl.fcntl(opened, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        Path("own.c").write_text("int main(void) { return 7; }")
        os.chmod("own.c", 0o755)
        assert os.stat("own.c").st_mode & 0o777 == 0o600
        os.environ["TMPDIR"] = os.getcwd()
        assert os.spawnlp(os.P_WAIT, "cc", "cc", "own.c", "-o", "own") == 0
        if not when_root:
            assert os.spawnl(os.P_WAIT, "own", "own") == 7
            os.chmod("own.c", 0o700)
            assert os.stat("own.c").st_mode & 0o777 == 0o700
        shutil.copy2("own", "copy")
        assert os.spawnlp(os.P_WAIT, "cp", "cp", "-a", "own", "another") == 0
        print("nothing changed")

    status, text = run(main, survey_=survey(without=(*NAMESPACES, "uid")))
    assert (status.code, text) == (0, "nothing changed\n"), text
    after = theirs.stat()
    assert (after.st_mode, after.st_mtime) == (before.st_mode, before.st_mtime)
    assert tmp_path.stat().st_mode == around.st_mode


@in_zygote
def test_for_a_jail_that_is_stopped_nothing_runs_out_or_comes_in() -> None:
    """No timer wakes it, or takes the processor in an interrupt, and no descriptor."""
    need("seccomp")

    def main() -> None:
        with pytest.raises(PermissionError):
            syscalls.call("timer_create", 0, 0, 0)
        with pytest.raises(PermissionError):
            syscalls.call("timerfd_create", 0, 0)
        with pytest.raises(PermissionError):
            syscalls.call("io_setup", 1, 0)
        with pytest.raises(OSError, match="not permitted"):
            signal.setitimer(signal.ITIMER_REAL, 1)
        if "alarm" in NUMBERS:  # elsewhere the C library sets the other one
            with pytest.raises(PermissionError):
                syscalls.call("alarm", 1)
        with pytest.raises(PermissionError):
            fcntl.fcntl(1, fcntl.F_SETSIG, signal.SIGCONT)
        signal.setitimer(signal.ITIMER_PROF, 0)
        assert fcntl.fcntl(1, fcntl.F_GETFD) == 0
        print("nobody")

    for kept in (found(), survey(without=NAMESPACES)):
        status, text = run(main, survey_=kept)
        assert (status.code, text) == (0, "nobody\n"), text


@in_zygote
def test_memory_that_is_there_does_not_become_huge_pages() -> None:
    """Nor that of others, or where the kernel ignores what is above an int."""
    need("seccomp")
    huge, collapse, asked, needless = 2 << 20, 25, 14, 4

    def main() -> None:
        held = mmap.mmap(-1, 4 * huge, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(held))
        first = -(-start // huge) * huge
        held.write(b"x" * len(held))
        for advice in (collapse, collapse | 1 << 32):
            with pytest.raises(OSError, match="Invalid argument"):
                syscalls.call("madvise", first, 2 * huge, advice)
        with pytest.raises(PermissionError):
            syscalls.call("process_madvise", 0, 0, 0, collapse, 0)
        with contextlib.suppress(OSError):  # as a kernel without such pages says
            syscalls.call("madvise", first, huge, asked)
        syscalls.call("madvise", first, huge, needless)
        assert held[first - start] == 0
        print("as it was")

    for kept in (found(), survey(without=NAMESPACES)):
        status, text = run(main, survey_=kept)
        assert (status.code, text) == (0, "as it was\n"), text


@in_zygote
def test_a_jail_tells_nobody_out_of_band() -> None:
    """Nor has it pairs of sockets of another family, by another part of the kernel."""
    need("seccomp")

    def main() -> None:
        one, other = socket.socketpair()
        for send in (one.send, lambda data, flags: one.sendmsg([data], (), flags)):
            with pytest.raises(PermissionError):
                send(b"x", socket.MSG_OOB)
            send(b"x", socket.MSG_DONTWAIT)
        assert other.recv(3) == b"xx"
        with pytest.raises(PermissionError):
            syscalls.call("sendmmsg", one.fileno(), 0, 0, socket.MSG_OOB)
        with pytest.raises(OSError, match=os.strerror(errno.EAFNOSUPPORT)):
            socket.socketpair(socket.AF_INET)
        one.close()
        other.close()
        print("nobody")

    for kept in (found(), survey(without=NAMESPACES)):
        status, text = run(main, survey_=kept)
        assert (status.code, text) == (0, "nobody\n"), text


@in_zygote
def test_no_jail_has_memory_that_is_nobodys() -> None:
    """It would be freed when the jail is gone, beside what is timed then; and by its id anybody's
    is there."""
    need("seccomp")
    segment = syscalls.call("shmget", 0, 4096, 0o1600)

    def main() -> None:
        for name, arguments in (
            ("shmget", (0, 4096, 0o1600)),
            ("shmat", (segment, 0, 0o10000)),
            ("shmctl", (segment, 0, 0)),
            ("msgget", (0, 0o1600)),
            ("semget", (0, 1, 0o1600)),
            ("mq_open", (b"queue", os.O_CREAT | os.O_RDWR, 0o600, 0)),
            ("prctl", (62, 1, 0, 0, 0)),  # nor the other half of its core
        ):
            with pytest.raises(PermissionError):
                syscalls.call(name, *arguments)
        print("none")

    try:
        bare, device = survey(without=NAMESPACES), a_policy(devices=("/dev/full",))
        for policy, kept in itertools.product((a_policy(), device), (found(), bare)):
            status, text = run(main, policy, kept)
            assert (status.code, text) == (0, "none\n"), text
    finally:
        syscalls.call("shmctl", segment, 0, 0)
