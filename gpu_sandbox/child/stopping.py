"""Stopping all processes of a candidate while the baseline is timed, and the other way round.

What a candidate starts beside its worker is in nobody's account. Such a process can burn the core
in bursts beside the baseline's releases, so that what these take besides their calls grows: then
as much is believed of the candidate's, and a false claim fits in. So while one side is timed, the
other side's processes lie still: each thread of each was seen stopped, twice in a row, since the
end of one may wake another, and none has used a processor in between, since looks at many take
time. What the kernel would do for them meanwhile is refused (``confine/calls.py``).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["Stoppable", "Unstoppable"]

_WITHIN_S = 5.0
_PATIENCE_S = 0.01
_BREATH_S = 0.001
_LIES_STILL = frozenset({b"T", b"Z", b"X"})
_AT_REST = 2
"""Looks in a row that find the same processes, none of them at work or having been so."""
_CPUCLOCK_SCHED = 2
_AWAKE_NS = 10_000_000
"""For each that does not lie still any more: of some the account is told by ticks."""


class Unstoppable(Exception):
    """Processes start others faster than they can be stopped, or stay in the kernel."""


class Stoppable:
    """A worker, and all that descends from its warden, which adopts whoever loses its own parent.

    Made before there is a candidate. Raises ``OSError`` if it has ended.
    """

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._warden = _parent(worker)
        if self._warden in _ancestors():
            raise ProcessLookupError(f"process {worker} has no warden, or has lost it")
        if worker not in self._adopted() and _parent(worker) == self._warden:  # it has not ended
            # As on a kernel without CONFIG_PROC_CHILDREN.
            raise NotImplementedError("the kernel does not list the children of a process")

    @contextmanager
    def stopped(self) -> Iterator[Callable[[], int]]:
        """Gives what tells how much of the processor they have used since, in nanoseconds: some
        microseconds of one that had to leave its own yet, or more by a trick that is not known.

        Raises ``Unstoppable``; ``OSError`` if the worker or its warden has ended.
        """
        if _parent(self._worker) != self._warden:
            raise ProcessLookupError(f"process {self._worker} has ended")
        held: dict[int, int] = {}
        try:
            used = self._stop(held)

            def used_since() -> int:
                found, awake = set(used), set[int]()
                with suppress(OSError):  # it has ended
                    now, awake = self._seen()
                    found |= now
                grown = (_used_ns(pid) - used.get(pid, 0) for pid in found)
                return sum(max(0, ns) for ns in grown) + _AWAKE_NS * len(awake)

            yield used_since
        finally:
            _let_go(held)
            for fd in held.values():
                os.close(fd)

    def _stop(self, held: dict[int, int]) -> dict[int, int]:
        """What each has used by then. ``held``: descriptors of those that were sent a stop, by
        their pids."""
        deadline = time.monotonic() + _WITHIN_S
        looks, before, working, since = 0, dict[int, int](), set[int](), 0.0
        while True:
            found, at_work = self._seen()
            if self._worker not in found:  # or nobody would be stopped, and all be well
                raise ProcessLookupError(f"process {self._worker} is not its warden's child")
            used = {pid: _used_ns(pid) for pid in found}
            looks = 0 if at_work or used != before else looks + 1
            if looks == _AT_REST:
                return used
            self._send_stops(at_work, found, held)
            now = time.monotonic()
            if now > deadline:
                raise Unstoppable
            if at_work != working:
                working, since = at_work, now
            elif at_work and now - since > _PATIENCE_S:
                # Who has started a program by vfork waits in the kernel until its child, which we
                # may have stopped, is that program.
                _let_go(held)
                time.sleep(_BREATH_S)
                since = time.monotonic()
            before = used
            os.sched_yield()  # to one that stops on our own core

    def _send_stops(self, at_work: set[int], found: set[int], held: dict[int, int]) -> None:
        for pid in at_work:
            with suppress(OSError):
                if pid not in held:
                    held[pid] = self._opened(pid, found)
                signal.pidfd_send_signal(held[pid], signal.SIGSTOP)

    def _seen(self) -> tuple[set[int], set[int]]:
        """All processes, and those of them of which a thread does not lie still. Whether it does
        comes first: who does starts no others afterwards. Not the warden's own forks
        (``confine/memory.py``): they are of its session, which nobody else can join."""
        found, at_work, ahead = set[int](), set[int](), self._adopted()
        while ahead:
            pid = ahead.pop()
            if pid in found:
                continue
            found.add(pid)
            if not _lies_still(pid):
                at_work.add(pid)
            with suppress(OSError):
                ahead += _children(pid)
        return found, at_work

    def _adopted(self) -> list[int]:
        own = _session(self._warden)
        return [pid for pid in _children(self._warden) if _session(pid) != own]

    def _opened(self, pid: int, found: set[int]) -> int:
        """A descriptor, which never becomes another process'."""
        fd = os.pidfd_open(pid)
        try:
            if _parent(pid) not in {self._warden, *found}:
                raise ProcessLookupError
        except OSError:
            os.close(fd)
            raise
        return fd


def _let_go(held: dict[int, int]) -> None:
    for fd in held.values():
        with suppress(OSError):  # it has ended
            signal.pidfd_send_signal(fd, signal.SIGCONT)


def _lies_still(pid: int) -> bool:
    """Each of its threads: the first one may have ended before others. One that is gone when it is
    looked at was at work, and may have started another."""
    try:
        threads = _threads(pid)
        return all(_stat(f"/proc/{pid}/task/{thread}")[0] in _LIES_STILL for thread in threads)
    except OSError:
        return False


def _used_ns(pid: int) -> int:
    """Processor time of all threads that it has had, by the kernel's account, which knows of one
    that has a processor now up to the last tick; 0 if it is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return 0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in _threads(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _threads(pid: int) -> list[str]:
    return os.listdir(f"/proc/{pid}/task")


def _ancestors() -> set[int]:
    """Ours."""
    found, pid = {0, 1}, os.getpid()
    while pid not in found:
        found.add(pid)
        pid = _parent(pid)
    return found


def _parent(pid: int) -> int:
    return int(_stat(f"/proc/{pid}")[1])


def _session(pid: int) -> int | None:
    """None if it is gone."""
    try:
        return int(_stat(f"/proc/{pid}")[3])
    except OSError:
        return None


def _stat(place: str) -> list[bytes]:
    """What the kernel says of a process or a thread, from its state on."""
    return _read(f"{place}/stat").rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    """Bare calls: pairs wait for this."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    finally:
        os.close(fd)
