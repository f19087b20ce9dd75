"""The zygote: one process that has imported torch, and whose forks are all children.

It never touches a device, stays single-threaded (namespaces demand it, and a fork copies one
thread only), runs no foreign code, and adopts and kills what escapes from its children. Before it
imports torch, it finds out what can confine a child here.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import select
import signal
import socket
import tempfile
import traceback
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from gpu_sandbox.confine import Jail, SpawnFailed, Survey, processes, spawn
from gpu_sandbox.confine.cgroup_reclaim import at_work, finished_within
from gpu_sandbox.confine.jail_init import KILL_S, PATIENCE_S
from gpu_sandbox.confine.survey_cache import cached_survey, forget_survey
from gpu_sandbox.ipc.framing import MAX_FDS, Channel, PeerGone
from gpu_sandbox.ipc.zygote_messages import (
    MODULES,
    Alive,
    ComputeCacheKeys,
    Ended,
    Kill,
    Refused,
    Role,
    Spawn,
    Spawned,
    ToZygote,
)
from gpu_sandbox.languages import languages_and_compilers
from gpu_sandbox.zygote.reaping import Endings
from gpu_sandbox.zygote.trusted_process import TrustedProcess, reaped

_PRELOADED = ("encodings.ascii", "torch.utils.cpp_extension", "torch.utils.flop_counter")
_ENDED_S = KILL_S + 2.0  # more while the kernel still takes it down
_FREED_S = 5.0  # for some gigabytes at our end
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_libc = ctypes.CDLL(None, use_errno=True)


class Zygote:
    """Spawns on command and reports every end. Others are spawned and ended while one that holds
    memory of a GPU is slow to die."""

    def __init__(self, sock: socket.socket, found: Survey, surveys: Path) -> None:
        self._socket = sock
        self._channel: Channel[ToZygote] = Channel(sock, ToZygote, fds=MAX_FDS)
        self._survey = found
        self._surveys = surveys
        self._living: dict[int, Jail | TrustedProcess] = {}
        self._endings = Endings(self._spent, due_s=_ENDED_S, most_s=PATIENCE_S + 2.0)
        self._stuck: set[int] = set()
        """Killed processes that the kernel still holds: they are waited for once."""

    def serve(self) -> None:
        """Until the engine closes its end; then everything that lives is ended."""
        self._channel.send(Alive(survey=self._survey))
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        try:
            while True:
                by_fd = {living.fd: number for number, living in self._living.items()}
                for fd in by_fd:
                    poll.register(fd, select.POLLIN)
                ready = [fd for fd, _ in poll.poll(self._patience_ms())]
                for fd in by_fd:
                    poll.unregister(fd)
                ended = {by_fd[fd] for fd in ready if fd in by_fd}
                for number in ended | self._endings.late():
                    self._end(number)
                if self._socket.fileno() in ready:
                    self._obey(self._channel.receive())
        finally:
            for living in self._living.values():
                living.stop()
            for number in list(self._living):
                with contextlib.suppress(PeerGone):
                    self._end(number)
            finished_within(_FREED_S)

    def _obey(self, command: ToZygote) -> None:
        match command:
            case Spawn():
                self._spawn(command)
            case Kill(id=number):
                if number in self._living and number not in self._endings:
                    self._endings.killed(number)
                    self._living[number].stop()
            case ComputeCacheKeys():
                _compute_cache_keys()

    def _patience_ms(self) -> float | None:
        left_s = self._endings.next_s()
        return None if left_s is None else left_s * 1000

    def _spent(self, number: int) -> tuple[int, int]:
        """Not by a jail init, which goes on killing."""
        living = self._living[number]
        return processes.spent(_head(living), itself=isinstance(living, TrustedProcess))

    def _end(self, number: int) -> None:
        overdue = self._endings.over(number)
        living = self._living.pop(number)
        status = living.end(overdue=overdue)
        if living.stuck:
            self._stuck.add(_head(living))
        if isinstance(living, TrustedProcess):
            self._adopt_and_kill()
        self._channel.send(
            Ended(
                id=number,
                code=status.code,
                signal=status.signal,
                stuck=living.stuck,
                out_of_memory=status.out_of_memory,
            )
        )

    def _adopt_and_kill(self) -> None:
        """End processes that were reparented to us."""
        ours = {_head(living) for living in self._living.values()}
        while strays := [p for p in _children() if p not in ours | self._stuck | at_work()]:
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    if reaped(pid, KILL_S) is None:
                        self._stuck.add(pid)

    def _spawn(self, order: Spawn) -> None:
        fds = self._channel.take_fds()
        try:
            output, sockets = fds[0], dict(zip(order.sockets, fds[1:], strict=True))
            main = _entry(order, sockets)
            if order.policy is None:
                living: Jail | TrustedProcess = self._fork(order, main, output, fds[1:])
            else:
                living = spawn(
                    order.policy,
                    self._survey,
                    main,
                    output_fd=output,
                    keep_fds=fds[1:],
                    environment=order.environment,
                )
        except Exception as error:
            if isinstance(error, SpawnFailed):  # not as surveyed: the next start surveys again
                with contextlib.suppress(OSError):
                    forget_survey(self._surveys)
            self._channel.send(Refused(id=order.id, reason=f"{type(error).__name__}: {error}"))
            return
        finally:
            for fd in fds:
                os.close(fd)
        self._living[order.id] = living
        self._channel.send(Spawned(id=order.id, pid=living.pid))

    def _fork(
        self, order: Spawn, main: Callable[[], None], output: int, keep: list[int]
    ) -> TrustedProcess:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return TrustedProcess(pid)
        try:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            os.setsid()
            for number in (1, 2):
                os.dup2(output, number)
            _close_all_but({0, 1, 2, *keep})
            os.environ.clear()
            os.environ.update(order.environment)
            os.chdir(order.directory)
            main()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)


def _entry(order: Spawn, sockets: dict[str, int]) -> Callable[[], None]:
    def enter() -> None:
        _libc.prctl(_PR_SET_NAME, order.role.encode())  # what ps and nvidia-smi show
        tempfile.tempdir = None  # ours, if somebody asked for it
        for name in ("TMPDIR", "XDG_CACHE_HOME"):  # a private home is empty at first
            os.makedirs(os.environ[name], exist_ok=True)
        faulthandler.disable()  # it believes that its handlers are still there
        faulthandler.enable()
        # What is stopped in the middle of something says where it was.
        faulthandler.register(signal.SIGTERM, all_threads=False, chain=True)
        _main_of(order.role)(**order.arguments, **sockets)

    return enter


def _main_of(role: Role) -> Callable[..., None]:
    main: Callable[..., None] = importlib.import_module(MODULES[role]).main
    return main


def _survey_meanwhile(surveys: Path, without: Collection[str]) -> Callable[[], Survey]:
    """Begin a survey in a fork, beside the import of torch, and return what waits for its end."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(ours)
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
            found = msgspec.msgpack.encode(cached_survey(surveys, without=without))
            with open(theirs, "wb") as pipe:
                pipe.write(found)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(theirs)

    def surveyed() -> Survey:
        with open(ours, "rb") as pipe:
            found = pipe.read()
        _, status = os.waitpid(pid, 0)
        if code := os.waitstatus_to_exitcode(status):
            raise SystemExit(f"the survey of isolation layers failed with exit code {code}")
        return msgspec.msgpack.decode(found, type=Survey)

    return surveyed


def _load() -> None:
    """Import all that children need."""
    gc.disable()
    for role in MODULES:
        _main_of(role)
    for name in _PRELOADED:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    gc.enable()
    gc.collect()
    gc.freeze()


def _compute_cache_keys() -> None:
    """Keys of compilers' caches, which a process remembers once it has computed them."""
    for language in languages_and_compilers():
        for path in language.cache_keys:
            module, _, function = path.rpartition(".")
            with contextlib.suppress(Exception):
                getattr(importlib.import_module(module), function)()
                break


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _head(living: Jail | TrustedProcess) -> int:
    """Our own child of it."""
    return living.pid if isinstance(living, TrustedProcess) else living.init_pid


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def main(*, control: int, surveys: str, without: Collection[str] = ()) -> None:
    """``surveys``: directory of the cached survey; ``without``: layers to do without."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    surveyed = _survey_meanwhile(Path(surveys), without)
    _load()
    found = surveyed()
    with socket.socket(fileno=control) as sock, contextlib.suppress(PeerGone):
        Zygote(sock, found, Path(surveys)).serve()
    os._exit(0)  # taking torch down would cost 0.2 s
