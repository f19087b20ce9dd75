"""Host memory of a jail's processes, where no control group counts it.

Read by the jail init from the ``/proc`` of its zygote, opened before the jail has one of its own:
that one hides the candidate even from the jail init. What counts, and when the exact account is
taken beside the rough one, stands in docs/sandbox/limits.md ("Memory without a cgroup").
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence

from gpu_sandbox.confine.policy import Layer, LayerFailed

LOOK_S = 0.1
_MAX_EXCUSED = 8  # forks whose share of the zygote's pages is not counted in the rough account
_EXACT_S, _EXACT_S_PER_GB, _MAX_EXACT_S = 1.5, 0.1, 6.0  # the jail init hears nothing meanwhile
_MAX_UNANSWERED = 2  # exact accounts in a row; then the rough one counts
_VALID_FOR = 10  # times as long as an exact account took: a tenth of a core goes into it
_KB = 1024
_BLOCK = 512

_SOCK_DIAG = 4
_BY_FAMILY, _DONE, _ERROR = 20, 3, 2
_REQUEST, _DUMP = 0x1, 0x300
_QUEUES, _MEMORY = 0x10, 0x20
"""What to show of each."""
_OF_QUEUES, _OF_MEMORY = 4, 5
_WAITS_S = 1.0
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBHIIIII")
_FOUND_BYTES = 16
_ATTRIBUTE = struct.Struct("=HH")


class HeldMemory:
    """Memory of the calling process, a jail init before its candidate, and of all descendants.

    ``sockets``: a network namespace will hold, whose sockets are the jail's. Raises ``LayerFailed``
    where ``/proc`` does not show memory.
    """

    def __init__(self, *, sockets: bool = False) -> None:
        self._sockets = sockets
        try:
            self.fd = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._init = os.readlink("self", dir_fd=self.fd)
            self._inherited = self._rough(self._init)[0]
            self._memory_files = _device_of_memory_files()
            self._unanswered = 0
            self._valid_until, self._valid_above = 0.0, 0
        except OSError as error:
            raise LayerFailed(
                Layer.WATCH, f"/proc does not show a jail's processes: {error}"
            ) from error

    def exceeds(self, limit_bytes: int) -> bool:
        limit_bytes -= self._in_sockets(limit_bytes)
        pids = list(self._descendants())
        excused = self._inherited * min(len(pids), _MAX_EXCUSED)
        rough = self._sum(pids, [self._rough(pid) for pid in pids]) or 0
        if rough <= limit_bytes + excused:
            self._unanswered = 0
            return False
        began, free = time.monotonic(), self._free_bytes()
        if began < self._valid_until and free > self._valid_above:
            return False
        allowed = limit_bytes + self._inherited
        exact = _answered_by_fork(
            lambda: self._exact_sum(pids, allowed),
            within_s=min(_EXACT_S + _EXACT_S_PER_GB * rough / 1e9, _MAX_EXACT_S),
            meanwhile=lambda: self._free_bytes() >= free - limit_bytes,
        )
        if exact is None:
            self._unanswered += 1
            return self._unanswered >= _MAX_UNANSWERED
        self._unanswered = 0
        now = time.monotonic()
        self._valid_until = now + _VALID_FOR * (now - began)
        self._valid_above = free - allowed + exact
        return exact > allowed

    def _in_sockets(self, limit_bytes: int) -> int:
        try:
            return _bytes_in_sockets(limit_bytes) if self._sockets else 0
        except OSError:  # a kernel without CONFIG_UNIX_DIAG
            return 0

    def _exact_sum(self, pids: list[str], allowed: int) -> int | None:
        """None if the kernel does not show it of one of them. If it is more than ``allowed``, the
        least of two: of processes that end while others are read, shared pages count again."""
        first = self._sum(pids, [self._exact(pid) for pid in pids])
        if first is None or first <= allowed:
            return first
        second = self._sum(pids, [self._exact(pid) for pid in pids])
        return None if second is None else min(first, second)

    def _sum(self, pids: list[str], sizes: Sequence[tuple[int, int] | None]) -> int | None:
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        shared = max(sum(pages for _, pages in known), self._open_bytes(pids))
        return sum(own for own, _ in known) + shared

    def _descendants(self) -> Iterator[str]:
        ahead = self._children(self._init)
        while ahead:
            pid = ahead.pop()
            yield pid
            ahead += self._children(pid)

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
        """Of files in memory that these have open, each once; without CAP_SYS_PTRACE of none."""
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

    def _free_bytes(self) -> int:
        """Memory and swap that the machine has free."""
        sizes = _sizes(self._text("meminfo"))
        return sizes.get("MemAvailable", 0) + sizes.get("SwapFree", 0)

    def _listed(self, path: str) -> list[str]:
        try:
            directory = self._open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return os.listdir(directory)
            finally:
                os.close(directory)
        except OSError:  # it is gone, or not ours to look at
            return []

    def _text(self, path: str) -> str:
        try:
            with open(path, "rb", buffering=0, opener=self._open) as file:
                return file.readall().decode(errors="replace")
        except OSError:
            return ""

    def _open(self, path: str, flags: int) -> int:
        return os.open(path, flags, dir_fd=self.fd)


def _answered_by_fork(
    question: Callable[[], int | None], *, within_s: float, meanwhile: Callable[[], bool]
) -> int | None:
    """The answer of a fork, if there is one in time, as long as ``meanwhile`` is true: the kernel
    gives none of a process that maps memory without end, and the jail init must not wait for that.
    """
    read, write = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        return None
    if pid == 0:
        try:
            found = question()
            os.write(write, b"" if found is None else str(found).encode())
        finally:
            os._exit(0)
    os.close(write)
    poller = select.poll()
    poller.register(read, select.POLLIN)
    deadline = time.monotonic() + within_s
    while not (ready := poller.poll(LOOK_S * 1000)):
        if time.monotonic() > deadline or not meanwhile():
            break
    answer = os.read(read, 64) if ready else b""
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return int(answer) if answer else None


def _beside_pages(sizes: dict[str, int]) -> int:
    """Of a ``status``, what is in none of its other sizes: page tables and huge pages."""
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
    """The device that all files of ``memfd_create`` are on."""
    with open(os.memfd_create("which device"), "rb") as file:
        return os.fstat(file.fileno()).st_dev


def _bytes_in_sockets(most: int) -> int:
    """Sent and not received in the caller's namespace, by socket diagnostics (sock_diag(7)), since
    it is in no process's account; counted no further than ``most``. By receivers' queues or by
    senders' accounts, whichever is more: a closed sender has none. Raises ``OSError`` where the
    kernel does not show it."""
    received = sent = 0
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG
    ) as sock:
        sock.settimeout(_WAITS_S)
        asked = _ASKED.pack(socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _QUEUES | _MEMORY, 0, 0)
        size = _HEADER.size + len(asked)
        sock.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST | _DUMP, 1, 0) + asked)
        while True:
            for kind, body in _messages(sock.recv(1 << 16)):
                if kind == _DONE:
                    return max(received, sent)
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", body)[0], "no socket diagnostics")
                attributes = dict(_attributes(body[_FOUND_BYTES:]))
                received += _word(attributes.get(_OF_QUEUES, b""), 0)
                sent += _word(attributes.get(_OF_MEMORY, b""), 2)
            if max(received, sent) > most:
                return max(received, sent)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        size, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : size]
        data = data[_aligned(max(size, _HEADER.size)) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        yield kind, data[_ATTRIBUTE.size : size]
        data = data[_aligned(max(size, _ATTRIBUTE.size)) :]


def _word(data: bytes, index: int) -> int:
    return int(struct.unpack_from("=I", data, 4 * index)[0]) if len(data) >= 4 * index + 4 else 0


def _aligned(size: int) -> int:
    return (size + 3) & ~3
