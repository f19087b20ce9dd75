"""Targets of attacks, made by the survey outside of the jail, and the test of a refusal."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from gpu_sandbox.confine.policy import Layer
from gpu_sandbox.confine.syscalls import call

NAMESPACE_FILES = {
    Layer.USER: "user",
    Layer.MOUNT: "mnt",
    Layer.NET: "net",
    Layer.IPC: "ipc",
    Layer.PID: "pid",
    Layer.UTS: "uts",
    Layer.CGROUP_NAMESPACE: "cgroup",
}

_IPC_PRIVATE, _IPC_CREAT, _IPC_RMID = 0, 0o1000, 0
_LONGEST_SOCKET_PATH = 100


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """Things outside of the jail that a candidate must not reach."""

    canary: str
    """A file that all may read, in a directory that all may write to."""
    secret: str
    """A file of the zygote's user alone."""
    unix_path: str
    unix_name: bytes
    """Of a listening socket in the abstract namespace."""
    port: int
    """A listening TCP port of 127.0.0.1."""
    victim: int
    """A process of the zygote's user."""
    segment: int
    """The id of shared memory, -1 where the kernel has none."""
    package: str
    namespaces: Mapping[Layer, str]
    """Layer to the zygote's own, as ``/proc/self/ns`` names it."""


@contextmanager
def targets() -> Iterator[Targets]:
    """A file, servers, a process and shared memory outside, for the length of the survey."""
    with ExitStack() as stack:
        directory = stack.enter_context(scratch())
        os.chmod(directory, 0o1777)
        canary, secret = os.path.join(directory, "canary"), os.path.join(directory, "secret")
        for path, mode in ((canary, 0o644), (secret, 0o600)):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode))
        unix_path = _reachable(os.path.join(directory, "socket"), stack)
        unix_name = f"gpu-sandbox-survey-{os.getpid()}".encode()
        _serve(socket.AF_UNIX, unix_path, stack)
        with suppress(FileNotFoundError):
            os.chmod(unix_path, 0o777)
        _serve(socket.AF_UNIX, b"\0" + unix_name, stack)
        tcp = _serve(socket.AF_INET, ("127.0.0.1", 0), stack)
        yield Targets(
            canary=canary,
            secret=secret,
            unix_path=unix_path,
            unix_name=unix_name,
            port=tcp.getsockname()[1] if tcp is not None else 1,
            victim=stack.enter_context(_victim()),
            segment=_share_memory(stack),
            package=str(Path(__file__).resolve().parents[1]),
            namespaces={
                layer: os.readlink(f"/proc/self/ns/{name}")
                for layer, name in NAMESPACE_FILES.items()
                if os.path.lexists(f"/proc/self/ns/{name}")
            },
        )


def _reachable(path: str, stack: ExitStack) -> str:
    """A shorter path, if a socket's name can't be that long."""
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
        return path
    near = stack.enter_context(tempfile.TemporaryDirectory(prefix="survey-", dir="/tmp"))
    os.chmod(near, 0o711)
    return os.path.join(near, os.path.basename(path))


def _serve(family: int, address: object, stack: ExitStack) -> socket.socket | None:
    """Where the host itself has no network, there is nothing to attack either."""
    with suppress(OSError):
        server = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        server.bind(address)  # type: ignore[arg-type]
        server.listen(64)
        return server
    return None


def _share_memory(stack: ExitStack) -> int:
    """A segment's id. Removed at once, it can be attached by its id until this process ends."""
    try:
        segment = call("shmget", _IPC_PRIVATE, 4096, _IPC_CREAT | 0o666)
    except OSError:
        return -1
    try:
        stack.callback(call, "shmdt", call("shmat", segment, 0, 0))
    finally:
        call("shmctl", segment, _IPC_RMID, 0)
    return segment


@contextmanager
def _victim() -> Iterator[int]:
    """A process of our own user that does nothing."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(write)
            os.read(read, 1)  # until we are gone
        finally:
            os._exit(0)
    os.close(read)
    try:
        yield pid
    finally:
        os.close(write)
        with suppress(ChildProcessError, ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def refused(action: Callable[[], object], got: str) -> tuple[bool, str]:
    """Whether the kernel said no, and in which words; else what was ``got``."""
    try:
        action()
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error))
        return True, f"refused: {name}"
    return False, got


@contextmanager
def scratch() -> Iterator[str]:
    """A directory, gone afterwards."""
    path = tempfile.mkdtemp(prefix="gpu-sandbox-survey-")
    try:
        yield os.path.realpath(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
