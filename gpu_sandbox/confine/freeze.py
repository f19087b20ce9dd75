"""Freezing all processes of one side while the other side of a pair is timed.

Processes that a candidate starts beside its worker are in no account; they could slow the baseline
down beside its calls. So while one side is timed, the other side is frozen: each thread of each
process was seen stopped, twice in a row, since the end of one may wake another, and none used a
processor in between. What the kernel would do for them meanwhile is refused (``syscall_policy.py``;
ADR 0016).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

_WITHIN_S = 5.0
_PATIENCE_S = 0.01
_BREATH_S = 0.001
_YIELD_S = 1e-6  # lets a process on our own core run to its stop, which a yield may not
_FROZEN_STATES = frozenset({b"T", b"Z", b"X"})
_ROUNDS = 2  # in a row that find the same processes, none of them at work in between
_CPUCLOCK_SCHED = 2
_MAX_FILES, _PIECE = 512, 1 << 16
_AWAKE_NS = 10_000_000  # charged for each that is not frozen any more: some accounts are in ticks


class Unstoppable(Exception):
    """Processes start others faster than they can be stopped, or stay in the kernel."""


class Frozen:
    """Frozen processes, and the processor time of each by then, which is exact only of those."""

    def __init__(
        self, used: Mapping[int, int], look: Callable[[], tuple[set[int], set[int]]], since_ns: int
    ) -> None:
        self.since_ns = since_ns
        """By ``time.perf_counter_ns``: none was at work any more."""
        self._used = used
        self._look = look

    def used_ns(self) -> int:
        """Processor time used since all the same, in nanoseconds."""
        found, awake = set(self._used), set[int]()
        with suppress(OSError):  # it has ended
            now, awake = self._look()
            found |= now
        grown = (_used_ns(pid) - self._used.get(pid, 0) for pid in found)
        return sum(max(0, ns) for ns in grown) + _AWAKE_NS * len(awake)

    def used_since(self, before: Frozen) -> int:
        """Processor time of these since ``before``, in nanoseconds. A process that began and ended
        in between is in no account."""
        return sum(ns - before._used.get(pid, 0) for pid, ns in self._used.items())


class Stoppable:
    """A worker and all that descends from its jail init, which adopts orphans.

    Made before there is a candidate. Raises ``OSError`` if it has ended. ``close`` lets them be.
    One that is not frozen ``within_s`` is ``Unstoppable``.
    """

    def __init__(self, worker: int, within_s: float = _WITHIN_S) -> None:
        self._worker = worker
        self._within_s = within_s
        self._held: dict[int, int] = {}
        """Descriptors of those that were stopped, by their pids."""
        self._init = _parent(worker)
        self._inits_session = _session(self._init)
        if self._init in _ancestors():
            raise ProcessLookupError(f"process {worker} has no jail init, or has lost it")
        if worker not in self._adopted() and _parent(worker) == self._init:  # it has not ended
            # As on a kernel without CONFIG_PROC_CHILDREN.
            raise NotImplementedError("the kernel does not list the children of a process")

    def close(self) -> None:
        _files.close()
        while self._held:
            os.close(self._held.popitem()[1])

    @contextmanager
    def stopped(self) -> Iterator[Frozen]:
        """Raises ``Unstoppable``; ``OSError`` if the worker or its jail init has ended."""
        sent = self._send_stops(self._held)  # those that are known, before they are looked for
        time.sleep(_YIELD_S)
        try:
            if _parent(self._worker) != self._init:
                raise ProcessLookupError(f"process {self._worker} has ended")
            used, since_ns = self._stop(sent)
            yield Frozen(used, self._seen, since_ns)
        finally:
            self._let_go(sent)

    def _stop(self, sent: set[int]) -> tuple[dict[int, int], int]:
        """Processor time of each when all are frozen, and when that was. Adds to ``sent`` what was
        sent a stop."""
        deadline = time.monotonic() + self._within_s
        rounds, before, working, since, still_ns = 0, dict[int, int](), set[int](), 0.0, 0
        while True:
            found, at_work = self._seen()
            if self._worker not in found:  # or nothing would be stopped, and all seem well
                raise ProcessLookupError(f"process {self._worker} is not its jail init's child")
            used = {pid: _used_ns(pid) for pid in found}
            if at_work or used != before:
                rounds, still_ns = 0, time.perf_counter_ns()
            else:
                rounds += 1
            if rounds == _ROUNDS:
                return used, still_ns
            for pid in at_work - self._held.keys():
                with suppress(OSError):
                    self._held[pid] = self._opened(pid, found)
            sent |= self._send_stops(at_work)
            now = time.monotonic()
            if now > deadline:
                raise Unstoppable
            if at_work != working:
                working, since = at_work, now
            elif at_work and now - since > _PATIENCE_S:
                # After a vfork a process waits in the kernel for its child, which may be stopped.
                self._let_go(sent)
                time.sleep(_BREATH_S)
                since = time.monotonic()
            before = used
            time.sleep(_YIELD_S)

    def _send_stops(self, pids: Iterable[int]) -> set[int]:
        """To those of ``pids`` that are held; returns which got one."""
        sent = set[int]()
        for pid in [pid for pid in pids if pid in self._held]:
            try:
                signal.pidfd_send_signal(self._held[pid], signal.SIGSTOP)
            except OSError:  # it has ended
                os.close(self._held.pop(pid))
            else:
                sent.add(pid)
        return sent

    def _let_go(self, pids: Iterable[int]) -> None:
        for pid in [pid for pid in pids if pid in self._held]:
            with suppress(OSError):  # it has ended
                signal.pidfd_send_signal(self._held[pid], signal.SIGCONT)

    def _seen(self) -> tuple[set[int], set[int]]:
        """All processes, and those that are not frozen. That is read before a process's children: a
        frozen one starts no others. Without the jail init's own forks (``memory_watch.py``): they
        are of its session, which no other can join."""
        found, at_work, ahead = set[int](), set[int](), self._adopted()
        while ahead:
            pid = ahead.pop()
            if pid in found:
                continue
            found.add(pid)
            if not _is_frozen(pid):
                at_work.add(pid)
            with suppress(OSError):
                ahead += _children(pid)
        return found, at_work

    def _adopted(self) -> list[int]:
        children = _children(self._init)
        return [pid for pid in children if _session(pid) != self._inits_session]

    def _opened(self, pid: int, found: set[int]) -> int:
        """A descriptor, which never becomes another process'."""
        fd = os.pidfd_open(pid)
        try:
            if _parent(pid) not in {self._init, *found}:
                raise ProcessLookupError
        except OSError:
            os.close(fd)
            raise
        return fd


def _is_frozen(pid: int) -> bool:
    """Each of its threads. One that is gone by now was at work, and may have started another."""
    try:
        threads = _threads(pid)
        return all(_stat(f"/proc/{pid}/task/{thread}")[0] in _FROZEN_STATES for thread in threads)
    except OSError:
        return False


def _used_ns(pid: int) -> int:
    """Processor time of all threads that it has had, of running ones up to the last tick; 0 if it
    is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return 0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in _threads(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, _files.read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _threads(pid: int) -> list[str]:
    return os.listdir(f"/proc/{pid}/task")


def _ancestors() -> set[int]:
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
    """Fields of a process or a thread, from its state on."""
    return _files.read(f"{place}/stat").rpartition(b")")[2].split()


class _Files:
    """Files of ``/proc``, kept open, since pairs wait for these reads. A file stays that of the
    process it was opened for: once that is gone, reads fail or are empty. So an empty one is opened
    anew."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        fd = self._open.pop(path, None)
        if fd is not None and (data := self._read(path, fd)):
            return data
        return self._read(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def _read(self, path: str, fd: int) -> bytes:
        """And keep it open, if there is something in it."""
        data = b""
        try:
            while piece := os.pread(fd, _PIECE, len(data)):
                data += piece
        finally:
            if not data:
                os.close(fd)
        if data:
            if len(self._open) >= _MAX_FILES:
                self.close()
            self._open[path] = fd
        return data

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


_files = _Files()
