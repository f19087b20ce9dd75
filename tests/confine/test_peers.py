"""Wards that share what others have: whom they could reach."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
from collections.abc import Callable

import pytest

from gpu_sandbox.confine import (
    seccomp,
    survey,
)
from tests.confine.wards import NAMESPACES, a_policy, found, in_zygote, need, run


@in_zygote
def test_without_files_of_its_own_a_ward_meets_nobody_over_sockets() -> None:
    """With a device it makes those of a driver, named as a driver's are, until it gives them up:
    in threads that are there already, too."""
    need("seccomp")
    name = f"\0test-{os.getpid()}"
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(f"{name}-server")
    server.listen()
    mailbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    mailbox.bind(f"{name}-mailbox")

    def able(what: Callable[[], object]) -> bool:
        try:
            what()
        except BlockingIOError:  # it would wait
            return True
        except OSError:
            return False
        return True

    def attempts(told: str) -> None:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        done, own = [], pair[0]
        for kind in ("SOCK_STREAM", "SOCK_SEQPACKET"):
            with contextlib.suppress(OSError):
                made = socket.socket(socket.AF_UNIX, getattr(socket, kind))
                own.close()
                done, own = [*done, kind], made
        own.setblocking(False)
        if done:  # else it is one of the pair, which may talk to the other
            done += ["send"] if able(lambda: own.sendto(b"hello", f"{name}-server")) else []
        done += ["connect"] if able(lambda: own.connect(f"{name}-server")) else []
        done += ["bind"] if able(lambda: own.bind(f"{name}-{told}")) else []
        done += [word for word in ("listen", "accept") if able(getattr(own, word))]
        for kind in ("SOCK_DGRAM", "SOCK_RAW"):  # which the kernel takes for the same
            with contextlib.suppress(OSError):
                one, other = socket.socketpair(socket.AF_UNIX, getattr(socket, kind))
                done.append(f"pair of {kind}")
                if able(lambda one=one: one.sendto(b"hello", f"{name}-mailbox")):
                    done.append("mail")
                one.close()
                other.close()
        print(f"{told}: {' '.join(done)}", flush=True)
        for each in (own, *pair):
            each.close()

    def main() -> None:
        attempts("before")
        turn = threading.Event()
        other = threading.Thread(target=lambda: (turn.wait(), attempts("a thread")))
        other.start()
        seccomp.give_up_driver_sockets()
        attempts("after")
        turn.set()
        other.join()

    bare = survey(without=NAMESPACES)
    with_device = a_policy(devices=("/dev/full",))
    _, text = run(main, with_device, bare)
    assert text == "before: SOCK_SEQPACKET bind listen\nafter: \na thread: \n"
    _, text = run(main, a_policy(), bare)
    assert text == "before: \nafter: \na thread: \n"
    if {"namespaces:mount", "namespaces:net"} <= set(found().layers):
        _, text = run(main, with_device)
        pairs = "pair of SOCK_DGRAM pair of SOCK_RAW"
        kept = f"SOCK_STREAM SOCK_SEQPACKET bind listen accept {pairs}\n"
        assert text == f"before: {kept}after: {kept}a thread: {kept}", text


@in_zygote
def test_without_a_user_of_its_own_a_ward_changes_nobody_elses_limits() -> None:
    def main() -> None:
        warden = os.getppid()
        batch = (os.SCHED_BATCH, os.sched_param(0))
        for change in (
            lambda: os.setpriority(os.PRIO_PROCESS, warden, 5),
            lambda: os.setpriority(os.PRIO_USER, 0, 5),
            lambda: os.sched_setscheduler(warden, *batch),
            lambda: os.sched_setparam(warden, os.sched_param(0)),
            lambda: resource.prlimit(warden, resource.RLIMIT_NOFILE),
        ):
            with pytest.raises(PermissionError):
                change()
        os.nice(1)
        os.sched_setscheduler(0, *batch)
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        print("itself it may")

    status, text = run(main, survey_=survey(without=(*NAMESPACES, "uid")))
    assert status.code == 0, text
    assert text == "itself it may\n"
