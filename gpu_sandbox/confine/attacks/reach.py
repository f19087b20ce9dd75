"""Attacks on what lies outside the jail: files, servers, processes, shared memory."""

from __future__ import annotations

import os
import socket
from functools import partial

from gpu_sandbox.confine.attacks.targets import Targets, refused
from gpu_sandbox.confine.policy import Policy
from gpu_sandbox.confine.syscalls import call

_SHM_RDONLY = 0o10000


def read_canary(targets: Targets, _: Policy) -> tuple[bool, str]:
    return refused(lambda: _open(targets.canary), "read a foreign file")


def read_secret(targets: Targets, _: Policy) -> tuple[bool, str]:
    return refused(lambda: _open(targets.secret), "read a private file")


def _write_in(directory: str) -> tuple[bool, str]:
    path = os.path.join(directory, f".attack-{os.getpid()}")

    def create() -> None:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.unlink(path)

    return refused(create, f"created a file in {directory}")


def write_outside(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _write_in(os.path.dirname(targets.canary))


def write_package(targets: Targets, _: Policy) -> tuple[bool, str]:
    return _write_in(targets.package)


def _connect(family: int, address: object) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        client.connect(address)  # type: ignore[arg-type]


def unix_socket(targets: Targets, _: Policy) -> tuple[bool, str]:
    address = targets.unix_path
    return refused(lambda: _connect(socket.AF_UNIX, address), "connected to a server")


def abstract_socket(targets: Targets, _: Policy) -> tuple[bool, str]:
    address = b"\0" + targets.unix_name
    return refused(lambda: _connect(socket.AF_UNIX, address), "connected to a server")


def tcp(targets: Targets, _: Policy) -> tuple[bool, str]:
    address = ("127.0.0.1", targets.port)
    return refused(lambda: _connect(socket.AF_INET, address), "connected to the host")


def shared_memory(targets: Targets, _: Policy) -> tuple[bool, str]:
    words = (targets.segment, 0, _SHM_RDONLY)
    return refused(lambda: call("shmat", *words), "found foreign shared memory")


def signal_a_process(targets: Targets, _: Policy) -> tuple[bool, str]:
    return refused(lambda: os.kill(targets.victim, 0), "may signal a foreign process")


def trace(targets: Targets, _: Policy) -> tuple[bool, str]:
    def attach() -> None:
        call("ptrace", 16, targets.victim, 0, 0)
        os.waitpid(targets.victim, 0)
        call("ptrace", 17, targets.victim, 0, 0)

    return refused(attach, "attached to a foreign process")


def read_jail_init(_: Targets, __: Policy) -> tuple[bool, str]:
    detail = ""
    for name in ("environ", "mem", "maps"):
        path = f"/proc/{os.getppid() or 1}/{name}"
        held, detail = refused(partial(_open, path), f"opened {path}")
        if not held:
            return False, detail
    return True, detail


def _open(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))
