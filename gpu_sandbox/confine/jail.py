"""Running jail, as its zygote sees it: watched, stopped, and surely ended.

Invariants: ``Jail.end`` returns within ``grace_s`` and some thirty seconds, and sets ``stuck`` if a
process could not be killed; it leaves no process and no control group otherwise, even if the jail
init was killed from outside. (A group with much to free stays for that: ``cgroup_reclaim.py``.)
"""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from types import TracebackType

from gpu_sandbox.confine import cgroup_reclaim, cgroups, processes
from gpu_sandbox.confine.channel import Ended, Failed, MapUser, Ready, Stop, receive, send
from gpu_sandbox.confine.identity import map_user
from gpu_sandbox.confine.jail_init import KILL_S
from gpu_sandbox.confine.kernel_support import Survey
from gpu_sandbox.confine.policy import Layer, LayerFailed, SpawnFailed, Status

_START_S = 30.0

_inits: set[int] = set()  # of this process, not yet reaped


class Jail:
    """A running jail. Not for threads; may be used as a context, which ends it.

    Keep it: when it is dropped, its channel closes, and the jail is killed.
    """

    def __init__(
        self,
        channel: socket.socket,
        pid: int,
        uid: int | None,
        number: int,
        survey: Survey,
        cores: tuple[int, ...],
    ) -> None:
        self.init_pid = pid
        """The jail init's pid, as the zygote numbers it."""
        self.pid = 0
        """The candidate's, likewise."""
        self.layers: tuple[str, ...] = ()
        """What held when the candidate began."""
        self.status: Status | None = None
        """None while it runs; looked up by ``ended`` and ``end``."""
        self.stuck = False
        """Something does not die of SIGKILL, and nothing changes there: quarantine the device."""
        self._channel = channel
        self._uid = uid
        self._number = number
        self._survey = survey
        self._cores = cores
        self._others = set(() if Layer.PID in survey.layers else processes.children(os.getpid()))
        """Children that the zygote had before: not this jail's."""
        self._lost = False
        self._reaped = False
        _inits.add(pid)

    def begin(self) -> None:
        """Wait until the candidate is about to run. Raises ``SpawnFailed``."""
        deadline = time.monotonic() + _START_S
        while True:
            message, pid = receive(self._channel, max(deadline - time.monotonic(), 0))
            match message:
                case Ready(held):
                    self.layers, self.pid = held, pid
                    return
                case MapUser():
                    try:
                        map_user(self.init_pid, self._uid)
                    except LayerFailed as failure:
                        raise SpawnFailed(failure.layer, failure.reason) from failure
                    send(self._channel, Stop(0.0))
                case Failed(layer, reason):
                    raise SpawnFailed(layer, reason)
                case None:
                    raise SpawnFailed("start", f"not ready within {_START_S:g} s")
                case _:
                    raise SpawnFailed("start", "its process died before it was ready")

    @property
    def fd(self) -> int:
        """Readable once the jail has ended, by itself or not. -1 after ``end``."""
        return self._channel.fileno()

    def ended(self, timeout_s: float = 0.0) -> bool:
        """Whether everything in it is dead; waits for that up to ``timeout_s``."""
        if self.status is not None:
            return True
        message, _ = receive(self._channel, timeout_s)
        if isinstance(message, Ended):
            self.status, self.stuck = message.status, message.stuck
        elif message is not None:
            self.status, self._lost = Status(), True
        return self.status is not None

    def stop(self, grace_s: float = 0.2) -> None:
        """Begin to end it, without waiting: SIGTERM, and SIGKILL for all after ``grace_s``."""
        if self.status is None:
            send(self._channel, Stop(grace_s))

    def end(self, grace_s: float = 0.2, *, overdue: bool = False) -> Status:
        """Kill what is left, reap, clean up. Safe to call twice; never raises for the dead.

        ``overdue``: it was stopped so long ago that its jail init would have answered. If ``stuck``
        is set afterwards, the kernel holds a process back: call again later to reap the jail init.
        """
        if not self.ended() and not overdue:
            self.stop(grace_s)
            self.ended(grace_s + KILL_S + 2)
        if self.status is None:  # not even the jail init answers
            self.status, self._lost = Status(), True
        if not self._reap(0.0 if self._lost or self.stuck else 1.0):
            with suppress(ProcessLookupError):
                os.kill(self.init_pid, signal.SIGKILL)
            if not self._reap(0.0 if self.stuck else 1.0 if overdue else KILL_S):
                self.stuck = True
        if self._lost:
            self._sweep()
        else:
            self._free_what_the_kernel_keeps()
        self._lost = False
        self._channel.close()
        return self.status

    def _reap(self, timeout_s: float) -> bool:
        if not self._reaped and processes.reap(self.init_pid, timeout_s):
            self._reaped = True
            _inits.discard(self.init_pid)
        return self._reaped

    def _sweep(self) -> None:
        """After a jail init that was killed from outside: what did not die with it."""
        groups = []
        if Layer.CGROUP in self._survey.layers:
            groups = cgroups.reopen(self._survey.machine.hierarchies, self._number)
        # Nothing untrusted was there before the candidate began.
        escapable = Layer.PID not in self._survey.layers and bool(self.layers)
        deadline = time.monotonic() + KILL_S
        while True:
            for group in groups:
                group.kill()
            if escapable:
                if self._uid is not None:
                    processes.kill_user(self._uid)
                strays = self._strays()
                processes.kill(strays)
                for pid in strays:
                    processes.reap(pid, 0.0)
            removed = [group.remove() for group in groups]
            if all(removed) and not (escapable and self._strays()):
                break
            if time.monotonic() > deadline:
                self.stuck = True
                break
            time.sleep(0.005)
        for group in groups:
            group.close()

    def _free_what_the_kernel_keeps(self) -> None:
        """In groups that the jail init left for that, without waiting for it."""
        if self._channel.fileno() < 0 or Layer.CGROUP not in self._survey.layers:
            return
        for group in cgroups.reopen(self._survey.machine.hierarchies, self._number):
            if not group.pids() and cgroup_reclaim.laden(group):
                cgroup_reclaim.free(group, self._cores)
            group.close()

    def _strays(self) -> list[int]:
        """What the zygote, a sub-reaper, adopted when the jail init died."""
        kept = _inits | self._others | cgroup_reclaim.at_work()
        heads = [pid for pid in processes.children(os.getpid()) if pid not in kept]
        return heads + [pid for head in heads for pid in processes.descendants(head)]

    def __enter__(self) -> Jail:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
