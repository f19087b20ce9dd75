"""Jail init, the trusted first process of a jail: sets up its layers, and ends it.

Invariants: it outlives every process of its jail, unless it is killed from outside; it ends when
the zygote's end of the channel closes; it reports the candidate's status only when ``wait`` finds
no process left, or one can't be killed. It never returns into the zygote's frames.

In a PID namespace it is process 1: the kernel kills the jail with it. Elsewhere it is a sub-reaper,
which adopts orphans.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import msgspec

from gpu_sandbox.confine import apply_layers, processes
from gpu_sandbox.confine.cgroup_reclaim import laden
from gpu_sandbox.confine.cgroups import Group
from gpu_sandbox.confine.channel import Ended, Failed, MapUser, receive_stop, send
from gpu_sandbox.confine.filesystem import build
from gpu_sandbox.confine.identity import enter_namespaces, weaken_jail_init
from gpu_sandbox.confine.kernel_support import Machine
from gpu_sandbox.confine.memory_watch import LOOK_S, HeldMemory
from gpu_sandbox.confine.policy import Layer, LayerFailed, Policy, Status
from gpu_sandbox.confine.syscalls import close_all_but, ignore_child_stops, prctl

KILL_S = 10.0  # the zygote waits so long for a killed process of which nothing changes
PATIENCE_S = 120.0  # and for those that the kernel is at work on
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_RETRY_MS = 20


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a jail needs, decided before the fork."""

    policy: Policy
    layers: tuple[str, ...]
    machine: Machine
    uid: int | None
    groups: list[Group]
    channel: socket.socket
    output_fd: int
    keep_fds: Sequence[int]
    environment: Mapping[str, str]
    main: Callable[[], None]


def run(order: Order) -> NoReturn:
    """The child's side of ``clone``: signals are blocked, nothing is set up."""
    code = 70
    try:
        _JailInit(order).run()
        code = 0
    except LayerFailed as failure:
        send(order.channel, Failed(failure.layer, failure.reason))
    except BaseException:
        lines = traceback.format_exc().splitlines()
        send(order.channel, Failed("jail init", " | ".join(line.strip() for line in lines[-3:])))
    finally:
        os._exit(code)


class _JailInit:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._layers = frozenset(order.layers)
        self._candidate = 0
        self._status: Status | None = None
        self._wake = -1
        self._wake_pipe: set[int] = set()
        self._memory: HeldMemory | None = None
        self._out_of_memory = False

    def run(self) -> None:
        order, channel = self._order, self._order.channel
        self._become_jail_init()
        if Layer.WATCH in self._layers:
            self._memory = HeldMemory(sockets=Layer.NET in self._layers)
        if Layer.USER in self._layers:
            send(channel, MapUser())
            if not channel.recv(4096):
                os._exit(70)
        enter_namespaces(order.layers)
        if Layer.MOUNT in self._layers:
            uid = os.geteuid() if order.uid is None else order.uid
            gid = os.getegid() if order.uid is None else order.uid
            own_pids = Layer.PID in self._layers
            build(order.machine.view, order.policy, uid=uid, gid=gid, own_pids=own_pids)
        elif order.uid is not None:
            os.chown(order.policy.home, order.uid, order.uid, follow_symlinks=False)
        self._candidate = os.fork()
        if self._candidate == 0:
            apply_layers.run(order)
        self._keep_fds(set())
        weaken_jail_init(watches=self._memory is not None)
        if self._memory is not None:  # counting is not for a core that times, if there are others
            with suppress(OSError):
                os.sched_setaffinity(0, os.sched_getaffinity(0) - set(order.policy.affinity))
        stuck = self._watch()
        oom = self._out_of_memory or any(group.oom_kills() for group in order.groups)
        self._remove_groups()
        status = self._status or Status()
        send(channel, Ended(msgspec.structs.replace(status, out_of_memory=oom), stuck))

    def _become_jail_init(self) -> None:
        order = self._order
        self._keep_fds({order.output_fd, *order.keep_fds})
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            if fd not in order.keep_fds and fd != order.output_fd:
                os.dup2(null, fd)
        os.close(null)
        os.setsid()
        # While no candidate exists: the files in its own /proc that it writes are root's otherwise.
        prctl(_PR_SET_DUMPABLE, 1)
        if Layer.PID not in self._layers:
            prctl(_PR_SET_CHILD_SUBREAPER, 1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        self._wake, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wake_pipe = {self._wake, write}
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        ignore_child_stops()  # a stop of the candidate must not wake us beside what is timed
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _keep_fds(self, others: set[int]) -> None:
        ours = {self._order.channel.fileno(), 0, 1, 2}
        ours |= {fd for group in self._order.groups for fd in (group.fd, group.base_fd)}
        ours |= self._wake_pipe
        ours |= {self._memory.fd} if self._memory is not None else set()
        close_all_but(ours | others)

    def _watch(self) -> bool:
        """Until no process is left. Whether one is and can't be killed."""
        channel = self._order.channel
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        poller.register(channel, select.POLLIN)
        deadline: float | None = None
        next_look = time.monotonic() if self._memory is not None else math.inf
        self._reap()
        while self._status is None:
            if self._memory is not None and time.monotonic() >= next_look:
                self._out_of_memory = self._memory.exceeds(self._order.policy.memory_bytes)
                if self._out_of_memory:
                    break
                next_look = time.monotonic() + LOOK_S
            until = next_look if deadline is None else min(deadline, next_look)
            wait_ms = None if until == math.inf else max(until - time.monotonic(), 0) * 1000
            ready = poller.poll(wait_ms)
            self._drain_wake()
            if channel.fileno() in (fd for fd, _ in ready):
                stop = receive_stop(channel)
                if stop is None:
                    break  # the zygote is dead
                if deadline is None:
                    with suppress(ProcessLookupError):
                        os.kill(self._candidate, signal.SIGTERM)
                deadline = time.monotonic() + stop.grace_s
            self._reap()
            if deadline is not None and time.monotonic() >= deadline:
                break
        return not self._kill_all()

    def _drain_wake(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wake, 512):
                pass

    def _reap(self) -> bool:
        """Take every dead child. Whether there are none left at all."""
        while True:
            try:
                pid, word = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._candidate:
                code = os.waitstatus_to_exitcode(word)
                self._status = Status(code=code) if code >= 0 else Status(signal=-code)

    def _kill_all(self) -> bool:
        """SIGKILL until ``wait`` finds no child. False after ``PATIENCE_S``."""
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        deadline = time.monotonic() + PATIENCE_S
        while not self._reap():
            self._kill_once()
            if self._reap():
                break
            if time.monotonic() > deadline:
                return False
            poller.poll(_RETRY_MS)
            self._drain_wake()
        return True

    def _kill_once(self) -> None:
        if Layer.PID in self._layers:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # all in the namespace but us
            return
        for group in self._order.groups:
            group.kill()
        if Layer.UID in self._layers and self._order.uid is not None:
            processes.kill_user(self._order.uid)
        processes.kill(processes.descendants(os.getpid()))

    def _remove_groups(self) -> None:
        """Those that ``Jail.end`` need not free first."""
        for group in self._order.groups:
            if laden(group):
                continue
            for _ in range(50):
                if group.remove():
                    break
                time.sleep(0.002)
