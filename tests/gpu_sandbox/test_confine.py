"""Confinement, attacked from inside, by real processes.

Each test runs in an interpreter of its own, as a zygote does: one thread, and no children
but wards. As root the tests cover namespaces without user namespaces, and drop to an
ordinary user for the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import importlib.util
import inspect
import mmap
import os
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpu_sandbox.confine import (
    LAYERS,
    Policy,
    SpawnFailed,
    Status,
    Survey,
    Ward,
    filesystem,
    landlock,
    memory,
    processes,
    seccomp,
    spawn,
    survey,
    syscalls,
    view,
)
from gpu_sandbox.confine.attacks import excess
from gpu_sandbox.confine.cgroups import Group, Hierarchy
from gpu_sandbox.confine.memory import HeldMemory
from gpu_sandbox.confine.policy import WATCH, tier_of
from tests.gpu_sandbox.users import UNABLE, become_nobody, blocked, forbid_namespaces

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = UNABLE
WARNINGS = ("-W", "error", "-W", "ignore::DeprecationWarning")  # torch has its own
MIB = 1 << 20

# --- the harness -------------------------------------------------------------


def in_zygote(test: Callable[..., None]) -> Callable[..., None]:
    """Run the body in a fresh interpreter, with ``tmp_path`` if it takes it."""
    BODIES[test.__name__] = (test, "tmp_path" in inspect.signature(test).parameters)

    def outside(tmp_path: Path) -> None:
        words = [sys.executable, "-B", *WARNINGS, __file__, test.__name__]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode == SKIPPED:
            pytest.skip(done.stdout.strip().splitlines()[-1])
        assert done.returncode == 0, done.stdout + done.stderr

    outside.__name__ = test.__name__
    outside.__doc__ = test.__doc__
    return outside


BODIES: dict[str, tuple[Callable[..., None], bool]] = {}


def skip(reason: str) -> None:
    print(reason, flush=True)
    os._exit(SKIPPED)


@functools.cache
def found() -> Survey:
    return survey()


def need(*layers: str) -> Survey:
    for layer in layers:
        if layer not in found().layers:
            skip(f"{layer} is missing here: {found().missing.get(layer)}")
    return found()


def a_policy(home: str | None = None, **changes: Any) -> Policy:
    home = home or os.path.realpath(tempfile.mkdtemp())
    return msgspec.structs.replace(
        Policy(home=home, memory_bytes=1 << 30, file_bytes=256 * MIB, descriptors=256, cpu_s=100),
        **changes,
    )


ENVIRONMENT = {"PATH": os.environ["PATH"], "TOLD": "yes"}


class Running:
    def __init__(self, ward: Ward, output: int) -> None:
        self.ward = ward
        self.output = output

    def text(self, timeout_s: float = 30.0) -> str:
        """What it prints until the last holder of its output is gone."""
        data = b""
        while select.select([self.output], [], [], timeout_s)[0]:
            chunk = os.read(self.output, 1 << 16)
            if not chunk:
                break
            data += chunk
        else:
            raise AssertionError(f"output still open after {data!r}")
        return data.decode()


@contextlib.contextmanager
def running(
    main: Callable[[], None],
    policy: Policy | None = None,
    survey_: Survey | None = None,
    **options: Any,
) -> Iterator[Running]:
    read, write = os.pipe()
    try:
        ward = spawn(
            policy or a_policy(),
            survey_ or found(),
            main,
            output_fd=write,
            environment=options.pop("environment", ENVIRONMENT),
            **options,
        )
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    with ward:
        yield Running(ward, read)
    os.close(read)


def run(main: Callable[[], None], *arguments: Any, **options: Any) -> tuple[Status, str]:
    with running(main, *arguments, **options) as it:
        text = it.text(100.0)
        assert it.ward.ended(30.0)
        return it.ward.end(), text


def without(*layers: str) -> Survey:
    kept = tuple(layer for layer in found().layers if layer not in layers)
    return msgspec.structs.replace(found(), layers=kept)


def group_directories(zygote: int | None = None) -> list[str]:
    """Of one zygote, by default this process: other engines of the machine have theirs."""
    return [
        str(path)
        for hierarchy in found().machine.hierarchies
        for path in Path(hierarchy.base).glob(f"gpu-sandbox-{zygote or os.getpid()}-*")
    ]


def eventually(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# --- what holds --------------------------------------------------------------


@in_zygote
def test_every_layer_that_is_promised_was_attacked_and_held() -> None:
    result = found()
    assert [f for f in result.findings if not f.held] == []
    assert {f.layer for f in result.findings} == {*result.layers, "all"}
    needless = {"namespaces:user"} | ({"memory:watched"} if "cgroup" in result.layers else set())
    assert set(result.layers) | set(result.missing) | needless == set(LAYERS)
    assert result.tier == tier_of(
        set(result.layers), kernel_has_landlock=result.machine.landlock_abi > 0
    )
    assert msgspec.json.decode(msgspec.json.encode(result), type=Survey) == result


@in_zygote
def test_a_survey_leaves_nothing_behind(tmp_path: Path) -> None:
    fds = os.listdir("/proc/self/fd")
    mounts = Path("/proc/self/mountinfo").read_text()
    found()
    assert processes.children(os.getpid()) == []
    assert os.listdir("/proc/self/fd") == fds
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert list(tmp_path.iterdir()) == []
    assert group_directories() == []


@in_zygote
def test_a_layer_that_does_nothing_is_found_out() -> None:
    if landlock.abi() < 6 or not seccomp.supported():
        skip("needs Landlock 6 and seccomp")
    real_landlock, real_seccomp = landlock.restrict, seccomp.apply
    landlock.restrict = lambda *_: None
    result = survey()
    assert "landlock" not in result.layers
    assert "an attack got through" in result.missing["landlock"]
    landlock.restrict, seccomp.apply = real_landlock, lambda *_: None
    result = survey()
    assert "seccomp" not in result.layers
    assert result.tier == "C" or "uid" not in result.layers
    seccomp.apply = real_seccomp


@in_zygote
def test_what_is_turned_off_is_named() -> None:
    off = ("namespaces:mount", "seccomp", "cgroup", WATCH)
    result = survey(without=off)
    assert {layer: result.missing[layer] for layer in off} == dict.fromkeys(off, "turned off")
    assert result.tier == "C"


def test_tiers() -> None:
    walls = {f"namespaces:{name}" for name in ("mount", "net", "ipc", "pid")} | {"seccomp"}
    assert tier_of(walls | {"uid", "landlock"}, kernel_has_landlock=True) == "A"
    assert tier_of(walls | {"namespaces:user"}, kernel_has_landlock=False) == "A"
    assert tier_of(walls | {"uid"}, kernel_has_landlock=True) == "B"
    assert tier_of({"landlock", "seccomp"}, kernel_has_landlock=True) == "B"
    assert tier_of({"landlock", "rlimits"}, kernel_has_landlock=True) == "C"


def test_numbers_are_those_of_the_headers() -> None:
    """Against the C headers, where they are installed: both architectures."""
    headers = {
        0: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        1: Path("/usr/include/asm-generic/unistd.h"),
    }
    checked = 0
    for column, header in headers.items():
        if not header.is_file():
            continue
        for line in header.read_text().splitlines():
            words = line.replace("__NR3264_", "__NR_").split()
            if len(words) < 3 or words[0] != "#define" or not words[2].isdigit():
                continue
            row = syscalls._TABLE.get(words[1].removeprefix("__NR_"))
            if row is not None and words[1].startswith("__NR_"):
                assert row[column] == int(words[2]), words[1]
                checked += 1
    if not checked:
        pytest.skip("no kernel headers here")


def test_a_home_is_never_on_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "somebody"
    (home / "bin").mkdir(parents=True)
    (home / "work").mkdir()
    tool = home / "bin" / "ninja"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "path", [str(home), str(home / "work"), *sys.path])
    seen = view.base_view()
    assert str(home) in seen.left_out
    assert str(home) not in seen.trees
    assert str(tool) in seen.trees
    assert str(home / "work") in seen.trees
    assert not {"/", "/tmp", "/root", "/home", "/var", "/run", "/etc"} & set(seen.trees)


def test_links_on_the_way_are_made_again_and_nothing_lies_below_them(tmp_path: Path) -> None:
    """As where a virtual environment is a link to another project's."""
    (tmp_path / "real" / "lib").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "again").symlink_to("../link/lib")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "gone").symlink_to("nowhere")
    seen = view.extended(view.View(trees=(), links=()), (f"{tmp_path}/link/again",))
    assert seen.trees == (f"{tmp_path}/real/lib",)
    assert dict(seen.links) == {
        f"{tmp_path}/link": "real",
        f"{tmp_path}/real/again": "../link/lib",
    }
    view.extended(seen, (f"{tmp_path}/circle", f"{tmp_path}/gone"))  # not for ever


def test_a_linked_environment_is_isolated_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "env").symlink_to(sys.prefix)
    linked = tmp_path / "env" / Path(sys.executable).relative_to(sys.prefix)
    program = "from gpu_sandbox.confine.survey import survey; print(*survey().layers)"
    layers = [
        subprocess.run(
            [python, "-c", program],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.split()
        for python in (sys.executable, linked)
    ]
    assert layers[0] == layers[1]


# --- the ordinary life of a ward ---------------------------------------------


@in_zygote
def test_a_ward_starts_clean(tmp_path: Path) -> None:
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
        assert it.ward.layers == found().layers
        assert it.ward.pid > 0
        text = it.text()
        assert text.splitlines() == ["printed", "to error"], text
        assert it.ward.end() == it.ward.status
        assert (it.ward.code, it.ward.signal, it.ward.stuck) == (0, None, False)
    assert os.read(kept_read, 9) == b"kept"
    if "namespaces:mount" in found().layers:
        assert os.listdir(policy.home) == []


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _segfault() -> None:
    ctypes.string_at(0)


def _raise() -> None:
    raise RuntimeError("as told")


def _leave(code: int | str) -> Callable[[], None]:
    return lambda: sys.exit(code)


def _die(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


ENDS: dict[str, tuple[Callable[[], None], int | None, int | None]] = {
    "returns": (lambda: None, 0, None),
    "exits 7": (_leave(7), 7, None),
    "exits with a word": (_leave("word"), 1, None),
    "raises": (_raise, 1, None),
    "os._exit": (lambda: os._exit(9), 9, None),
    "segfault": (_segfault, None, signal.SIGSEGV),
    "abort": (os.abort, None, signal.SIGABRT),
    "SIGKILL": (_die(signal.SIGKILL), None, signal.SIGKILL),
    "SIGTERM": (_die(signal.SIGTERM), None, signal.SIGTERM),
}


@in_zygote
def test_the_exact_end_is_reported() -> None:
    for name, (main, code, number) in ENDS.items():
        status, text = run(main)
        assert (status.code, status.signal) == (code, number), (name, status, text)
        assert not status.out_of_memory
    assert "as told" in run(_raise)[1]


@in_zygote
def test_c_output_survives() -> None:
    def main() -> None:
        ctypes.CDLL(None).puts(b"from C")

    assert run(main)[1] == "from C\n"


@in_zygote
def test_cores_and_niceness_stick() -> None:
    core, here = min(os.sched_getaffinity(0)), os.nice(0)

    def main() -> None:
        assert os.sched_getaffinity(0) == {core}
        assert os.nice(0) == min(here + 5, 19)
        with contextlib.suppress(PermissionError):
            os.sched_setaffinity(0, range(64))
        assert os.sched_getaffinity(0) == {core}

    need("seccomp")
    status, text = run(main, a_policy(affinity=(core,), niceness=5))
    assert status.code == 0, text


@in_zygote
def test_more_to_read_and_a_device(tmp_path: Path) -> None:
    need("namespaces:mount")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("data")
    (tmp_path / "not-given").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "given")
    tmp_path.chmod(0o755)
    device = "/dev/ptmx"

    def main() -> None:
        assert (tmp_path / "given" / "file").read_text() == "data"
        assert (tmp_path / "link" / "file").read_text() == "data"
        assert not (tmp_path / "not-given").exists()
        with pytest.raises(OSError, match="Read-only"):
            (tmp_path / "given" / "new").write_text("")
        assert stat.S_ISCHR(os.stat(device).st_mode)
        for node in ("null", "zero", "full", "random", "urandom"):
            os.close(os.open(f"/dev/{node}", os.O_RDONLY))
        assert not os.path.exists("/dev/vda")
        Path("/dev/shm/x").write_text("x")

    readable = (str(tmp_path / "given"), str(tmp_path / "link"))
    home = os.path.realpath(tempfile.mkdtemp())
    devices = (device,) if stat.S_ISCHR(os.stat(device).st_mode) else ()
    if not devices:
        skip(f"no {device}")
    status, text = run(main, a_policy(home, readable=readable, devices=devices))
    assert status.code == 0, text


@in_zygote
def test_nothing_of_the_host_is_in_sight() -> None:
    need("namespaces:mount", "namespaces:pid")
    repository = str(ROOT)

    def main() -> None:
        print(sorted(os.listdir("/")))
        for path in ("/etc/shadow", "/var", "/run", "/home", "/root/.ssh", f"{repository}/.git"):
            assert not os.path.exists(path), path
        assert sorted(int(n) for n in os.listdir("/proc") if n.isdigit()) in ([2], [])
        assert "sandbox:" in Path("/etc/passwd").read_text()
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        assert not any(words[4].startswith("/old") for words in mounts)
        writable = [words[4] for words in mounts if words[5].split(",")[0] == "rw"]
        assert set(writable) <= {os.getcwd(), "/tmp", "/dev/shm", "/proc"} | {
            p for p in writable if p.startswith("/dev/")
        }, writable

    status, text = run(main)
    assert status.code == 0, text


@in_zygote
def test_without_files_of_its_own_a_ward_meets_nobody_over_sockets() -> None:
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

    bare = survey(without=_NAMESPACES)
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
def test_without_a_user_of_its_own_a_ward_changes_nobody_elses_limits() -> None:
    def main() -> None:
        warden = os.getppid()
        batch = (os.SCHED_BATCH, os.sched_param(0))
        for change in (
            lambda: os.setpriority(os.PRIO_PROCESS, warden, 5),
            lambda: os.setpriority(os.PRIO_USER, 0, 5),
            lambda: os.sched_setscheduler(warden, *batch),
            lambda: os.sched_setparam(warden, os.sched_param(0)),
            lambda: resource.prlimit(warden, resource.RLIMIT_NOFILE),
        ):
            with pytest.raises(PermissionError):
                change()
        os.nice(1)
        os.sched_setscheduler(0, *batch)
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        print("itself it may")

    status, text = run(main, survey_=survey(without=(*_NAMESPACES, "uid")))
    assert status.code == 0, text
    assert text == "itself it may\n"


@in_zygote
def test_wards_do_not_meet() -> None:
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
        outer = Path(f"/proc/{one.ward.pid}/status").read_text()
        if "uid" in found().layers:
            assert f"Uid:\t{2_000_000}"[:6] in outer
            assert os.stat(f"/proc/{one.ward.warden}").st_uid == 0


# --- what a ward does to get away, and what it costs ---------------------------


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
            assert not it.ward.ended()
            began = time.monotonic()
            status = it.ward.end(0.2 if main is deaf else 5.0)
            assert time.monotonic() - began < 30  # of the sixty that it would sleep
            assert (status.code, status.signal) == (code, number)


def _scatter(write: int) -> None:
    """Daemons of every kind, all deaf."""
    for index in range(4):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if os.fork() == 0:
                os.close(1) if index % 2 else None
                os.environ.clear()
                time.sleep(300)
            os._exit(0)
        os.wait()
    os.write(write, b"x")


@in_zygote
def test_no_daemon_outlives_its_ward() -> None:
    for layers in ((), ("namespaces:pid",), ("namespaces:pid", "cgroup"), _NAMESPACES):
        read, write = os.pipe()

        def main(write: int = write) -> None:
            _scatter(write)

        policy = a_policy()
        with running(main, policy, usable(without(*layers)), keep_fds=(write,)) as it:
            os.close(write)
            it.text()
            assert it.ward.ended(30.0), layers
            assert it.ward.end().remained >= 4
            assert it.ward.status is not None
            assert it.ward.status.code == 0
        assert os.read(read, 9) == b"x"
        assert os.read(read, 9) == b""  # all ends of the pipe are closed
        os.close(read)
        assert processes.children(os.getpid()) == []


_NAMESPACES = tuple(name for name in LAYERS if name.startswith("namespaces:"))


def usable(kept: Survey) -> Survey:
    """Without a mount namespace, and Python under root's home, there's no other uid."""
    layers = list(kept.layers)
    if "namespaces:mount" not in layers:
        layers = [layer for layer in layers if layer not in ("uid", "namespaces:pid")]
    return msgspec.structs.replace(kept, layers=tuple(layers))


@in_zygote
def test_a_warden_killed_from_outside_takes_its_ward_along() -> None:
    for layers in ((), ("namespaces:pid",), ("namespaces:pid", "cgroup"), _NAMESPACES):
        read, write = os.pipe()

        def main(write: int = write) -> None:
            _scatter(write)
            time.sleep(300)

        with running(main, a_policy(), usable(without(*layers)), keep_fds=(write,)) as it:
            os.close(write)
            assert os.read(read, 1) == b"x"
            os.kill(it.ward.warden, signal.SIGKILL)
            assert it.ward.ended(30.0)
            status = it.ward.end()
            assert (status.code, status.signal, it.ward.stuck) == (None, None, False)
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
        assert it.ward.end().signal == signal.SIGTERM


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
            warden = it.ward.warden
            assert eventually(lambda w=warden: len(processes.descendants(w)) > 20), layers
            time.sleep(0.3)
            count = len(processes.descendants(warden))
            assert 20 < count <= 40, (layers, count)
            it.ward.end(0.05)
            assert not it.ward.stuck
            it.text()
        assert processes.children(os.getpid()) == []


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


# --- memory that is watched, where no control group limits it


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


@in_zygote
def test_memory_that_is_watched_ends_with_the_whole_ward() -> None:
    watched = survey(without=("cgroup",))
    assert "memory:watched" in watched.layers, watched.missing
    assert [f.held for f in watched.findings if f.attack == "fill the memory"] == [True, True]
    policy = functools.partial(a_policy, memory_bytes=100 * MIB)
    fills = [fill_alone, fill_by_many, fill_what_is_shared, fill_with_page_tables]
    if not syscalls.lacks(19):
        fills += [fill_files_in_memory, fill_by_writing_to_what_is_shared]
    for fill in fills:
        status, text = run(fill, policy(), watched)
        assert (status.signal, status.out_of_memory) == (signal.SIGKILL, True), (fill, text)
        assert processes.children(os.getpid()) == []
    if not syscalls.lacks(19):
        status, text = run(share_with_forks, policy(), watched)
        assert (status.code, status.out_of_memory) == (0, False), text

    flat = tuple(layer for layer in watched.layers if layer not in _NAMESPACES)
    open_wards = usable(msgspec.structs.replace(watched, layers=flat))
    syscalls.keep_only(~(1 << 19))  # what it takes to look closer
    for fill in (fill_alone, fill_by_many):
        for layers in (watched, open_wards):
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
    HeldMemory._left_bytes = lambda _: left
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
    assert WATCH not in found().layers
    real = Group.limit
    Group.limit = lambda *_: None
    result = survey()
    assert "take too much memory" in result.missing["cgroup"]
    assert WATCH in result.layers
    Group.limit = real
    HeldMemory.exceeds = lambda *_: False
    excess._SEEN_S = 0.3
    result = survey(without=("cgroup",))
    assert "an attack got through (fill the memory" in result.missing[WATCH]


@in_zygote
def test_a_forged_report_is_not_believed() -> None:
    """The channel is closed before the candidate runs, and its warden can't be reached."""

    def main() -> None:
        for fd in range(3, 256):
            with pytest.raises(OSError, match="Bad file"):
                os.write(fd, b"\x81\xa4type\xa5ended")
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(3)

    assert run(main)[0].code == 3
    if "landlock" in found().layers:
        assert run(main, a_policy(), usable(without(*_NAMESPACES)))[0].code == 3


@in_zygote
def test_two_hundred_wards_leave_nothing() -> None:
    fds = os.listdir("/proc/self/fd")
    mounts = Path("/proc/self/mountinfo").read_text()
    policy = a_policy()
    with open(os.devnull, "wb") as output:
        for index in range(200):
            ward = spawn(
                policy,
                found(),
                lambda: os._exit(4) if os.fork() else time.sleep(100),
                output_fd=output.fileno(),
                environment={},
            )
            if index % 2:
                assert ward.ended(30)
                assert ward.end().code == 4
            else:
                ward.end()
            assert not ward.stuck
    assert os.listdir("/proc/self/fd") == fds
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert processes.children(os.getpid()) == []
    assert group_directories() == []


@in_zygote
def test_a_killed_zygote_leaves_nothing(tmp_path: Path) -> None:
    for layers in ((), ("namespaces:pid",), _NAMESPACES):
        kept = usable(without(*layers))
        read, write = os.pipe()
        zygote = os.fork()
        if zygote == 0:

            def main(write: int = write) -> None:
                _scatter(write)
                time.sleep(300)

            options: dict[str, Any] = {"output_fd": 1, "keep_fds": (write,), "environment": {}}
            wards = [spawn(a_policy(), kept, main, **options) for _ in range(3)]
            time.sleep(300)
            assert wards
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


# --- promises, kept or raised --------------------------------------------------


@in_zygote
def test_a_promise_that_fails_is_an_error_and_leaves_nothing() -> None:
    machine = found().machine
    nowhere = Hierarchy(version=1, base="/nonexistent", controllers=("pids",))
    broken: dict[str, tuple[Survey, Policy]] = {
        "namespaces:mount": (found(), a_policy(readable=("/nonexistent/path",))),
        "cgroup": (
            msgspec.structs.replace(
                found(), machine=msgspec.structs.replace(machine, hierarchies=(nowhere,))
            ),
            a_policy(),
        ),
        "landlock": (
            msgspec.structs.replace(
                found(), machine=msgspec.structs.replace(machine, landlock_abi=0)
            ),
            a_policy(),
        ),
    }
    fds = os.listdir("/proc/self/fd")
    ran = False
    for layer, (promised, policy) in broken.items():
        if layer not in found().layers:
            continue
        if layer == "landlock":
            landlock.restrict = _refuse
        with pytest.raises(SpawnFailed) as failure, running(lambda: print("ran"), policy, promised):
            ran = True
        assert failure.value.layer == layer
        assert failure.value.reason
    assert not ran
    assert os.listdir("/proc/self/fd") == fds
    assert processes.children(os.getpid()) == []
    assert group_directories() == []


def _refuse(*_: object) -> None:
    raise OSError(1, "refused")


@in_zygote
def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="not an absolute"):
        run(lambda: None, a_policy("relative"))
    with pytest.raises(ValueError, match="system"):
        run(lambda: None, a_policy("/usr"))
    home = a_policy().home
    with pytest.raises(ValueError, match="lies in home"):
        run(lambda: None, a_policy(home, readable=(f"{home}/x",)))
    with pytest.raises(ValueError, match="keep_fds"):
        run(lambda: None, keep_fds=(1,))


@in_zygote
def test_a_zygote_with_threads_is_refused() -> None:
    found()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    warnings.simplefilter("ignore")  # Python 3.12 warns of the same
    with pytest.raises(SpawnFailed, match="2 threads"):
        run(lambda: None)
    stop.set()
    thread.join()
    assert run(lambda: None)[0].code == 0


# --- real work, fully confined ---------------------------------------------------


@in_zygote
def test_torch_and_compilers_work_inside() -> None:
    if importlib.util.find_spec("torch") is None:
        skip("no torch")
    import torch

    headers = Path(torch.__file__).parent / "include"
    result = survey()
    python = sysconfig.get_path("include")

    def main() -> None:
        import torch

        torch.manual_seed(0)
        a = torch.rand(300, 300)
        torch.testing.assert_close((a @ a)[0], a[0] @ a)
        threads = [threading.Thread(target=lambda: a @ a) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        Path("k.cpp").write_text('extern "C" int twice(int x) { return 2 * x; }\n')
        subprocess.run(["c++", "-O1", "-shared", "-fPIC", "k.cpp", "-o", "k.so"], check=True)
        assert ctypes.CDLL(os.path.abspath("k.so")).twice(21) == 42
        Path("t.h").write_text("#include <torch/headeronly/macros/Macros.h>\n#include <Python.h>\n")
        include = [f"-I{headers}", f"-I{python}"]
        command = ["c++", "-std=c++17", "-x", "c++", *include, "-fsyntax-only", "t.h"]
        subprocess.run(command, check=True)
        done = subprocess.run(["ninja", "--version"], capture_output=True, check=True)
        assert done.stdout
        import multiprocessing

        queue = multiprocessing.get_context("fork").SimpleQueue()
        worker = multiprocessing.get_context("fork").Process(target=queue.put, args=("hi",))
        worker.start()
        assert queue.get() == "hi"
        worker.join()
        print("all done")

    environment = {**ENVIRONMENT, "PATH": f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"}
    policy = a_policy(memory_bytes=4 << 30, descriptors=1024)
    status, text = run(main, policy, result, environment=environment)
    assert status.code == 0, text
    assert text.endswith("all done\n")


@pytest.mark.gpu
@in_zygote
def test_cuda_works_inside() -> None:
    _use_cuda(found())


@pytest.mark.gpu
@in_zygote
def test_cuda_works_without_namespaces() -> None:
    _use_cuda(survey(without=_NAMESPACES))


def _use_cuda(result: Survey) -> None:
    """A context, a kernel, pinned memory, an event, and Triton's own compiles."""
    devices = tuple(path for path in glob.glob("/dev/nvidia*") if not os.path.isdir(path))
    if not devices:
        skip("no NVIDIA device")
    import torch

    from gpu_sandbox.child.context import make_context

    def main() -> None:
        began = time.monotonic()
        make_context(torch.device("cuda"))
        a = torch.rand(512, 512, device="cuda")
        torch.cuda.synchronize()
        print(f"context in {time.monotonic() - began:.2f} s")
        torch.testing.assert_close((a @ a).cpu(), a.cpu() @ a.cpu(), rtol=1e-2, atol=1e-2)
        torch.rand(1000, pin_memory=True).cuda()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        event.synchronize()
        tempfile.tempdir = None  # as it was before this fork, it can't be written here
        compiled = torch.compile(lambda x: torch.relu(x) * 2 + 1)
        torch.testing.assert_close(compiled(a), torch.relu(a) * 2 + 1)

    policy = a_policy(
        devices=devices, memory_bytes=32 << 30, file_bytes=1 << 30, descriptors=1024, cpu_s=300
    )
    kept = {n: os.environ[n] for n in ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME") if n in os.environ}
    caches = {n: f"{policy.home}/{n}" for n in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")}
    environment = {**kept, **caches, "HOME": policy.home, "TMPDIR": policy.home}
    status, text = run(main, policy, result, environment=environment)
    assert status.code == 0, text


# --- as an ordinary user -----------------------------------------------------------


def _as_ordinary_user(body: str, *, namespaces: bool) -> None:
    """Run a scenario as another user: ours, if we are no root."""
    pid = os.fork()
    if pid:
        _, word = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(word)
        if code == SKIPPED:
            os._exit(SKIPPED)
        assert code == 0
        return
    try:
        if os.geteuid() == 0:
            try:
                become_nobody(str(ROOT))
            except OSError as error:
                skip(f"needs a mount namespace: {error}")
        if not namespaces:
            forbid_namespaces()
        os.environ["TMPDIR"] = "/tmp"
        words = [sys.executable, "-B", *WARNINGS, __file__, body]
        os.execv(words[0], words)
    finally:
        os._exit(99)


def scenario_user_with_namespaces() -> None:
    result = found()
    if "namespaces:user" not in result.layers:
        skip(f"no user namespaces here: {result.missing}")
    assert [f for f in result.findings if not f.held] == []
    assert "uid" in result.missing
    assert WATCH in result.layers
    assert result.tier == "A"
    _live_a_little()


def scenario_user_without_namespaces() -> None:
    result = found()
    assert [f for f in result.findings if not f.held] == []
    assert not any(layer.startswith("namespaces:") for layer in result.layers)
    assert "seccomp profile" in result.missing["namespaces:user"]
    assert "needs namespaces:user" in result.missing["namespaces:mount"]
    assert result.tier == ("B" if "landlock" in result.layers else "C")
    _live_a_little()


def _live_a_little() -> None:
    for name, (main, code, number) in ENDS.items():
        status, text = run(main)
        assert (status.code, status.signal) == (code, number), (name, status, text)
    read, write = os.pipe()

    def daemons() -> None:
        _scatter(write)
        time.sleep(300)

    for kill_warden in (False, True):
        with running(daemons, keep_fds=(write,)) as it:
            os.read(read, 1)
            if kill_warden:
                os.kill(it.ward.warden, signal.SIGKILL)
            it.ward.end(0.05)
            it.text()
        assert processes.children(os.getpid()) == []

    def compile_() -> None:
        os.environ["TMPDIR"] = os.getcwd()
        Path("k.cpp").write_text('extern "C" int twice(int x) { return 2 * x; }\n')
        subprocess.run(["c++", "-O1", "-shared", "-fPIC", "k.cpp", "-o", "k.so"], check=True)
        assert ctypes.CDLL(os.path.abspath("k.so")).twice(21) == 42
        with pytest.raises(OSError):  # noqa: PT011
            socket.create_connection(("127.0.0.1", 1))

    home = os.path.realpath(tempfile.mkdtemp())
    status, text = run(compile_, a_policy(home))
    shutil.rmtree(home)
    assert status.code == 0, text


@in_zygote
def test_an_ordinary_user_has_user_namespaces() -> None:
    _as_ordinary_user("scenario_user_with_namespaces", namespaces=True)


@in_zygote
def test_an_ordinary_user_without_namespaces_has_the_rest() -> None:
    _as_ordinary_user("scenario_user_without_namespaces", namespaces=False)


@in_zygote
def test_root_without_namespaces_has_the_rest() -> None:
    result = survey(without=_NAMESPACES)
    assert [f for f in result.findings if not f.held] == []
    if "landlock" in result.layers:
        assert result.tier == "B"
    if os.geteuid() == 0 and blocked(sys.base_prefix) is not None:
        assert "other users can't read" in result.missing["uid"]


@in_zygote
def test_root_of_a_container_uses_a_user_namespace() -> None:
    """Without CAP_SYS_ADMIN, where namespaces may be made: still an own uid."""
    if os.geteuid() != 0 or syscalls.lacks(21):
        skip("needs root")
    syscalls.keep_only(~(1 << 21))
    result = survey()
    if "namespaces:user" not in result.layers:
        skip(f"no user namespaces: {result.missing}")
    assert [f for f in result.findings if not f.held] == []
    assert {"namespaces:mount", "namespaces:pid", "uid"} <= set(result.layers)
    assert result.tier == "A"
    status, text = run(lambda: print(os.getuid()), a_policy(), result)
    assert status.code == 0
    assert int(text) > 10000


@in_zygote
def test_mounts_are_locked_one_by_one_on_an_old_kernel() -> None:
    need("namespaces:mount")

    def absent(_: str) -> None:
        raise OSError(38, "mount_setattr")

    filesystem.lock_tree = absent
    assert [f for f in survey().findings if not f.held] == []


if __name__ == "__main__":
    name = sys.argv[1]
    body, takes_path = BODIES.get(name, (globals().get(name), False))
    assert body is not None
    arguments = [Path(os.environ["TMPDIR"])] if takes_path else []
    body(*arguments)
