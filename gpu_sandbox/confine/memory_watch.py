"""What the processes of a jail hold of the host's memory, for where no control group counts it.

Read by the jail init, every tenth of a second, from the ``/proc`` of its zygote, which is opened
before the jail has one of its own: that one hides the candidate even from the jail init.

Counted are anonymous, shared and huge pages, swap, the tables that say where pages are (a look
at every second megabyte of an empty mapping makes some, and no page), and files in memory that
are held open but not mapped, and what lies in sockets, if these are the jail's own. What forks
share with the zygote is nobody's doing. Where the sum of what each process holds is over the limit,
it is counted once more with shared pages divided among those that share them, as far as the kernel
shows that: to root with CAP_SYS_PTRACE.

That exact account walks every page, so it is not taken all the time: one that was under the limit
holds for ten times as long as it took, or until the machine has less memory left by as much as was
missing to the limit, since forks that write to what they share don't show in the rough one.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator

from gpu_sandbox.confine.policy import Layer, LayerFailed
from gpu_sandbox.confine.socket_memory import bytes_in_sockets

__all__ = ["LOOK_S", "HeldMemory"]

LOOK_S = 0.1
_MOST_EXCUSED = 8
"""Forks of which what they have of the zygote is not counted, where it can't be told apart."""
_EXACT_S, _EXACT_S_PER_GB, _MOST_EXACT_S = 1.5, 0.1, 6.0
"""Some hundredths do for a gigabyte, counted in each process that has it, where the machine is not
busy. No longer than the last: the jail init hears of nothing meanwhile, and ``Jail.end`` waits.
"""
_UNANSWERED = 2
"""In a row, and the rough account is held against it."""
_HOLDS = 10
"""Times as long as it took: about a tenth of a core goes into it."""
_KB = 1024
_BLOCK = 512


class HeldMemory:
    """Memory of the calling process, a jail init before its candidate, and of all descendants.

    ``sockets``: it will be in a network namespace of its own, so that what lies in local sockets
    there is the jail's. Raises ``LayerFailed`` where ``/proc`` does not show it.
    """

    def __init__(self, *, sockets: bool = False) -> None:
        self._sockets = sockets
        try:
            self.fd = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._init = os.readlink("self", dir_fd=self.fd)
            self._inherited = self._rough(self._init)[0]
            self._memory_files = _device_of_memory_files()
            self._unanswered = 0
            self._holds_until, self._holds_above = 0.0, 0
        except OSError as error:
            raise LayerFailed(
                Layer.WATCH, f"/proc does not show a jail's processes: {error}"
            ) from error

    def exceeds(self, limit_bytes: int) -> bool:
        limit_bytes -= self._in_sockets(limit_bytes)
        pids = list(self._descendants())
        excused = self._inherited * min(len(pids), _MOST_EXCUSED)
        rough = self._rough_sum(pids)
        if rough <= limit_bytes + excused:
            self._unanswered = 0
            return False
        began, left = time.monotonic(), self._left_bytes()
        if began < self._holds_until and left > self._holds_above:
            return False
        allowed = limit_bytes + self._inherited
        exact = _answered_by_fork(
            lambda: self._exact_sum(pids, allowed),
            within_s=min(_EXACT_S + _EXACT_S_PER_GB * rough / 1e9, _MOST_EXACT_S),
            meanwhile=lambda: self._left_bytes() >= left - limit_bytes,
        )
        if exact is None:
            self._unanswered += 1
            return self._unanswered >= _UNANSWERED
        self._unanswered = 0
        now = time.monotonic()
        self._holds_until, self._holds_above = now + _HOLDS * (now - began), left - allowed + exact
        return exact > allowed

    def _in_sockets(self, limit_bytes: int) -> int:
        try:
            return bytes_in_sockets(limit_bytes) if self._sockets else 0
        except OSError:  # a kernel without CONFIG_UNIX_DIAG; or it may tell at the next look
            return 0

    def _rough_sum(self, pids: list[str]) -> int:
        """What forks share counts in each of them."""
        rough = [self._rough(pid) for pid in pids]
        shared = max(sum(pages for _, pages in rough), self._open_bytes(pids))
        return sum(own for own, _ in rough) + shared

    def _exact_sum(self, pids: list[str], allowed: int) -> int | None:
        """None if the kernel does not show it of one of them. If it is more than ``allowed``, the
        least of two: while one process after the other is read, others end, and what they shared
        counts again."""
        first = self._exact_pass(pids)
        if first is None or first <= allowed:
            return first
        second = self._exact_pass(pids)
        return None if second is None else min(first, second)

    def _exact_pass(self, pids: list[str]) -> int | None:
        exact = [self._exact(pid) for pid in pids]
        known = [sizes for sizes in exact if sizes is not None]
        if len(known) < len(exact):
            return None
        shared = max(sum(pages for _, pages in known), self._open_bytes(pids))
        return sum(own for own, _ in known) + shared

    def _descendants(self) -> Iterator[str]:
        """Whoever loses its parent becomes the jail init's child."""
        left = self._children(self._init)
        while left:
            pid = left.pop()
            yield pid
            left += self._children(pid)

    def _children(self, pid: str) -> list[str]:
        found: list[str] = []
        for thread in self._listed(f"{pid}/task"):
            found += self._text(f"{pid}/task/{thread}/children").split()
        return found

    def _rough(self, pid: str) -> tuple[int, int]:
        """Bytes of its own, or shared with forks, swap included; and of shared memory."""
        sizes = _sizes(self._text(f"{pid}/status"))
        pages = sizes.get("RssAnon", 0) + sizes.get("VmSwap", 0)
        return pages + _beside_pages(sizes), sizes.get("RssShmem", 0)

    def _exact(self, pid: str) -> tuple[int, int] | None:
        """The same, but of what is shared its share; None where that is not shown of one that
        has memory, and has not ended by now."""
        sizes = _sizes(self._text(f"{pid}/smaps_rollup"))
        if "Pss_Anon" not in sizes:
            return None if any(self._rough(pid)) else (0, 0)
        pages = sizes["Pss_Anon"] + sizes.get("SwapPss", 0)
        beside = _beside_pages(_sizes(self._text(f"{pid}/status")))
        return pages + beside, sizes.get("Pss_Shmem", 0)

    def _open_bytes(self, pids: list[str]) -> int:
        """Of files in memory that these have open, each once. Who may not look sees none."""
        found: dict[int, int] = {}
        for pid in pids:
            for number in self._listed(f"{pid}/fd"):
                try:
                    status = os.stat(f"{pid}/fd/{number}", dir_fd=self.fd)
                except OSError:
                    continue
                if status.st_dev == self._memory_files:
                    found[status.st_ino] = status.st_blocks * _BLOCK
        return sum(found.values())

    def _left_bytes(self) -> int:
        """That the machine could still give, to whomever."""
        sizes = _sizes(self._text("meminfo"))
        return sizes.get("MemAvailable", 0) + sizes.get("SwapFree", 0)

    def _listed(self, path: str) -> list[str]:
        try:
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        except OSError:  # it is gone, or not ours to look at
            return []
        try:
            return os.listdir(directory)
        except OSError:
            return []
        finally:
            os.close(directory)

    def _text(self, path: str) -> str:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
        except OSError:
            return ""
        try:
            return _whole(file).decode(errors="replace")
        except OSError:
            return ""
        finally:
            os.close(file)


def _whole(file: int) -> bytes:
    """The kernel gives a page at a time: of the children of a process the first 819, or fewer."""
    data = b""
    while piece := os.read(file, 1 << 16):
        data += piece
    return data


def _answered_by_fork(
    question: Callable[[], int | None], *, within_s: float, meanwhile: Callable[[], bool]
) -> int | None:
    """The answer of a fork, if there is one in time, and as long as ``meanwhile`` is true: whoever
    maps memory without end can keep the kernel from saying how much it has, and the jail init must
    not stand still for that."""
    read, write = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        return None
    if pid == 0:
        try:
            answer = question()
            os.write(write, b"" if answer is None else str(answer).encode())
        finally:
            os._exit(0)
    os.close(write)
    poller = select.poll()
    poller.register(read, select.POLLIN)
    deadline = time.monotonic() + within_s
    while not (ready := poller.poll(LOOK_S * 1000)):
        if time.monotonic() > deadline or not meanwhile():
            break
    told = os.read(read, 64) if ready else b""
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return int(told) if told else None


def _beside_pages(sizes: dict[str, int]) -> int:
    """Of a process's ``status``, bytes that are in none of its other sizes: tables of pages, and
    huge pages, which count in each process that has them mapped."""
    return sizes.get("VmPTE", 0) + sizes.get("HugetlbPages", 0)


def _sizes(text: str) -> dict[str, int]:
    """The lines that end in kB, in bytes."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB":
            found[words[0].removesuffix(":")] = int(words[1]) * _KB
    return found


def _device_of_memory_files() -> int:
    """That all files of ``memfd_create`` are on."""
    fd = os.memfd_create("which device")
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)
