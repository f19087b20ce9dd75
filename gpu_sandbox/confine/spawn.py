"""Start a function in a ward, watch it, and surely end everything that it started.

Invariants, for a zygote (one thread, no children but wards): ``spawn`` either returns a ward
in which every layer of the survey holds, as its own process said, or raises and leaves
nothing; ``Ward.end`` returns within ``grace_s`` and some twenty seconds, and says so if
something could not be killed. A ward ends when its zygote dies, by whatever cause.
"""

from __future__ import annotations

import itertools
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType

import msgspec

from gpu_sandbox.confine import cgroups, processes, warden
from gpu_sandbox.confine.facts import Survey
from gpu_sandbox.confine.identity import map_user, next_uid
from gpu_sandbox.confine.policy import (
    CGROUP,
    PID,
    UID,
    USER,
    LayerFailed,
    Policy,
    SpawnFailed,
    Status,
)
from gpu_sandbox.confine.syscalls import CLONE_NEWPID, CLONE_NEWUSER, clone, prctl

__all__ = ["Ward", "spawn"]

_START_S = 30.0
_PR_SET_CHILD_SUBREAPER = 36
_SO_PASSCRED, _SCM_CREDENTIALS = 16, 2
_CREDENTIALS = struct.Struct("=iII")
_FRAME = 1 << 16

_numbers = itertools.count()
_wardens: set[int] = set()


class Ward:
    """A running ward. Not for threads; may be used as a context, which ends it.

    Keep it: when it is dropped, its channel closes, and the ward is killed.
    """

    def __init__(
        self, channel: socket.socket, pid: int, uid: int | None, number: int, survey: Survey
    ) -> None:
        self.warden = pid
        """The warden's pid, as the zygote numbers it."""
        self.pid = 0
        """The candidate's, likewise."""
        self.layers: tuple[str, ...] = ()
        """What held when the candidate began."""
        self.status: Status | None = None
        """None while it runs; looked up by ``ended`` and ``end``."""
        self.stuck = False
        """Something did not die within ten seconds of SIGKILL: quarantine the device."""
        self._channel = channel
        self._uid = uid
        self._number = number
        self._survey = survey
        self._others = frozenset(() if PID in survey.layers else processes.children(os.getpid()))
        """Of the zygote, before: not this ward's, whatever happens."""
        self._lost = False
        self._reaped = False

    @property
    def fd(self) -> int:
        """Readable once the ward has ended, by itself or not. -1 after ``end``."""
        return self._channel.fileno()

    def fileno(self) -> int:
        return self.fd

    def ended(self, timeout_s: float = 0.0) -> bool:
        """Whether everything in it is dead; waits for that up to ``timeout_s``."""
        if self.status is not None:
            return True
        message, _ = _receive(self._channel, timeout_s)
        if isinstance(message, warden.Ended):
            self.status, self.stuck = message.status, message.stuck
        elif message is not None:
            self.status, self._lost = Status(), True
        return self.status is not None

    def stop(self, grace_s: float = 0.2) -> None:
        """Begin to end it, without waiting: SIGTERM, and SIGKILL for all after ``grace_s``."""
        if self.status is None:
            _send(self._channel, warden.Stop(grace_s))

    def end(self, grace_s: float = 0.2) -> Status:
        """Kill whoever is left, reap, clean up. Safe to call twice; never raises for the dead.

        If ``stuck`` is set afterwards, a process is left, and perhaps its warden, which the
        kernel holds back: call again later to reap it.
        """
        if not self.ended():
            self.stop(grace_s)
            self.ended(grace_s + warden.KILL_S + 2)
        if self.status is None:  # not even the warden answers
            self.status, self._lost = Status(), True
        if not self._reap(0.0 if self._lost or self.stuck else 1.0):
            with suppress(ProcessLookupError):
                os.kill(self.warden, signal.SIGKILL)
            if not self._reap(0.0 if self.stuck else warden.KILL_S):
                self.stuck = True
        if self._lost:
            self._sweep()
        self._lost = False
        self._channel.close()
        return self.status

    @property
    def code(self) -> int | None:
        """The candidate's exit code, once it has ended by itself."""
        return self.status.code if self.status is not None else None

    @property
    def signal(self) -> int | None:
        """The signal that killed the candidate."""
        return self.status.signal if self.status is not None else None

    def _reap(self, timeout_s: float) -> bool:
        if not self._reaped and _reap(self.warden, timeout_s):
            self._reaped = True
            _wardens.discard(self.warden)
        return self._reaped

    def _sweep(self) -> None:
        """After a warden that was killed from outside: what did not die with it."""
        groups = []
        if CGROUP in self._survey.layers:
            groups = cgroups.reopen(self._survey.machine.hierarchies, self._number)
        # Before the candidate began, nothing untrusted was there to get away.
        escapable = PID not in self._survey.layers and bool(self.layers)
        deadline = time.monotonic() + warden.KILL_S
        while True:
            for group in groups:
                group.kill()
            if escapable:
                if self._uid is not None:
                    processes.kill_user(self._uid)
                strays = self._strays()
                processes.kill(strays)
                for pid in strays:
                    _reap(pid, 0.0)
            removed = [group.remove() for group in groups]
            if all(removed) and not (escapable and self._strays()):
                break
            if time.monotonic() > deadline:
                self.stuck = True
                break
            time.sleep(0.005)
        for group in groups:
            group.close()

    def _strays(self) -> list[int]:
        """Who came to the zygote, its sub-reaper, when the warden died."""
        kept = _wardens | self._others
        heads = [pid for pid in processes.children(os.getpid()) if pid not in kept]
        return heads + [pid for head in heads for pid in processes.descendants(head)]

    def __enter__(self) -> Ward:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


def spawn(
    policy: Policy,
    survey: Survey,
    main: Callable[[], None],
    *,
    output_fd: int,
    keep_fds: Sequence[int] = (),
    environment: Mapping[str, str],
) -> Ward:
    """Run ``main`` in a fork of this process, under every layer of ``survey``.

    It gets no input, ``output_fd`` as output and error, ``keep_fds`` under their numbers,
    exactly ``environment``, and ``policy.home`` as its directory. It exits with 0 when
    ``main`` returns, 1 when it raises. The caller keeps, and closes, its own copies of the
    descriptors. Returns when ``main`` is about to run.

    Raises ``SpawnFailed`` if a layer can't be set up, ``ValueError`` for a policy that makes
    no sense. Call it in a process with one thread: a fork copies no other.
    """
    _check(policy, keep_fds)
    _be_single_threaded()
    layers = frozenset(survey.layers)
    machine = survey.machine
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    number = next(_numbers)
    uid = next_uid(machine.uids) if UID in layers and machine.uids is not None else None
    for stream in (sys.stdout, sys.stderr):  # or the candidate prints it once more
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    try:
        groups = []
        if CGROUP in layers:
            groups = cgroups.make(machine.hierarchies, number, policy)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.setsockopt(socket.SOL_SOCKET, _SO_PASSCRED, 1)
            pid = _clone(
                warden.Order(
                    policy=policy,
                    layers=survey.layers,
                    machine=machine,
                    uid=uid,
                    groups=groups,
                    channel=theirs,
                    output_fd=output_fd,
                    keep_fds=tuple(keep_fds),
                    environment=environment,
                    main=main,
                )
            )
        except BaseException:
            ours.close()
            for group in groups:
                group.remove()
            raise
        finally:
            theirs.close()
            for group in groups:
                group.close()
    except LayerFailed as failure:
        raise SpawnFailed(failure.layer, failure.reason) from failure
    _wardens.add(pid)
    ward = Ward(ours, pid, uid, number, survey)
    try:
        _await_start(ward, uid)
    except BaseException:
        ward.end(0.0)
        raise
    return ward


def _check(policy: Policy, keep_fds: Sequence[int]) -> None:
    if any(fd < 3 for fd in keep_fds):
        raise ValueError("keep_fds: 0, 1 and 2 are the candidate's own input and output")
    for path in (policy.home, *policy.readable, *policy.devices):
        if os.path.normpath(path) != path or not os.path.isabs(path):
            raise ValueError(f"{path} is not an absolute, normal path")
        if path != policy.home and path.startswith(policy.home + "/"):
            raise ValueError(f"{path} lies in home, which is the candidate's to change")
    if policy.home.count("/") < 2:
        raise ValueError(f"home {policy.home} is a directory of the system")


def _be_single_threaded() -> None:
    """Raises ``SpawnFailed`` if this process has threads, whose locks a fork would keep shut.

    OpenBLAS, which comes with numpy, starts threads on import and stops them in a fork
    handler of libc; ``clone`` runs no handlers, and the warden's own ``fork`` would wait for
    threads that it never had. One idle fork here has them stopped, until they are used.
    """
    if len(os.listdir("/proc/self/task")) == 1:
        return
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise SpawnFailed("start", f"the zygote has {threads} threads; it must have one")


def _clone(order: warden.Order) -> int:
    layers = frozenset(order.layers)
    flags = CLONE_NEWUSER if USER in layers else 0
    flags |= CLONE_NEWPID if PID in layers else 0
    old = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = clone(flags)
        if pid == 0:
            warden.run(order)
    except OSError as error:
        if not flags:
            raise LayerFailed("start", str(error)) from error
        raise LayerFailed(USER if USER in layers else PID, str(error)) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    return pid


def _await_start(ward: Ward, uid: int | None) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        message, pid = _receive(ward._channel, max(deadline - time.monotonic(), 0))
        match message:
            case warden.Ready(held):
                ward.layers, ward.pid = held, pid
                return
            case warden.MapUser():
                try:
                    map_user(ward.warden, uid)
                except LayerFailed as failure:
                    raise SpawnFailed(failure.layer, failure.reason) from failure
                _send(ward._channel, warden.Stop(0.0))
            case warden.Failed(layer, reason):
                raise SpawnFailed(layer, reason)
            case None:
                raise SpawnFailed("start", f"not ready within {_START_S:g} s")
            case _:
                raise SpawnFailed("start", "its process died before it was ready")


class _Closed:
    """The warden is dead."""


def _receive(channel: socket.socket, timeout_s: float) -> tuple[object, int]:
    """A message and its sender's pid; ``_Closed`` at the end; None when time is up."""
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    if not poller.poll(timeout_s * 1000):
        return None, 0
    try:
        frame, ancillary, _, _ = channel.recvmsg(_FRAME, socket.CMSG_SPACE(_CREDENTIALS.size))
    except OSError:
        return _Closed(), 0
    if not frame:
        return _Closed(), 0
    pid = 0
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SCM_CREDENTIALS:
            pid = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0]
    return msgspec.msgpack.decode(frame, type=warden.Message), pid


def _send(channel: socket.socket, message: warden.Message) -> None:
    with suppress(OSError):
        channel.send(msgspec.msgpack.encode(message), socket.MSG_NOSIGNAL)


def _reap(pid: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    pause = 0.0002
    while True:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
