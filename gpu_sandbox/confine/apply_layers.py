"""Layers of a candidate's process, from the jail init's fork to its first line.

Invariant: ``main`` runs only when every promised layer is up in this very process and the zygote
knows; the channel is closed before. Each step is ordered by what the next one takes away.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from gpu_sandbox.confine import landlock, seccomp_filter
from gpu_sandbox.confine.channel import Failed, Ready, send
from gpu_sandbox.confine.identity import become
from gpu_sandbox.confine.policy import Layer, LayerFailed, Policy, setting_up
from gpu_sandbox.confine.syscalls import (
    CLONE_NEWCGROUP,
    close_all_but,
    flush_c_output,
    prctl,
    unshare,
)

if TYPE_CHECKING:
    from gpu_sandbox.confine.jail_init import Order


_PR_SET_NO_NEW_PRIVS = 38
_NO_CORE = 1  # byte; with 0 a helper that ``core_pattern`` names starts, as root and outside
_SIGNALS = 1024  # queued; counted by user, which may be the engine's
_NODES = ("null", "zero", "full", "random", "urandom")
_ETC = ("passwd", "group", "nsswitch.conf", "hosts")


def run(order: Order) -> NoReturn:
    try:
        _confine(order)
    except LayerFailed as failure:
        send(order.channel, Failed(failure.layer, failure.reason))
        os._exit(70)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{error!r} in {where.name}, line {where.lineno}"
        send(order.channel, Failed("start", reason))
        os._exit(70)
    os._exit(_run_main(order.main))


def _confine(order: Order) -> None:
    policy, layers = order.policy, frozenset(order.layers)
    _default_signals()
    os.setsid()
    _standard_streams(order)
    _enter_groups(order, layers)
    if policy.affinity:
        os.sched_setaffinity(0, policy.affinity)
    if Layer.RLIMITS in layers:
        with setting_up(Layer.RLIMITS):
            _limit(order, layers)
    os.environ.clear()
    os.environ.update(order.environment)
    private = not {Layer.MOUNT, Layer.UID} & layers
    os.umask(0o077 if private else 0o022)  # what a linker's chmod may keep (seccomp_filter.py)
    filter_ = _filter(policy, layers)  # as the user that it depends on
    become(order.uid)
    _go_home(policy, layers)
    if Layer.NO_NEW_PRIVS in layers:
        with setting_up(Layer.NO_NEW_PRIVS):
            prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if Layer.LANDLOCK in layers:
        with setting_up(Layer.LANDLOCK):
            landlock.restrict(_rules(order, layers), order.machine.landlock_abi)
    if Layer.SECCOMP in layers:
        with setting_up(Layer.SECCOMP):
            seccomp_filter.apply(filter_)
    close_all_but({0, 1, 2, order.channel.fileno(), *order.keep_fds})
    send(order.channel, Ready(tuple(layer for layer in Layer if layer in layers)))
    order.channel.close()


def _filter(policy: Policy, layers: frozenset[str]) -> bytes:
    if Layer.SECCOMP not in layers:
        return b""
    return seccomp_filter.program(
        own_files=Layer.MOUNT in layers,
        own_pids=Layer.PID in layers or Layer.UID in layers,
        own_user=Layer.UID in layers,
        pinned=bool(policy.affinity),
        driver=bool(policy.devices),
    )


def _enter_groups(order: Order, layers: frozenset[str]) -> None:
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # the first to go when memory ends
    with setting_up(Layer.CGROUP):
        for group in order.groups:
            group.enter()
    if Layer.CGROUP_NAMESPACE in layers:
        with setting_up(Layer.CGROUP_NAMESPACE):
            unshare(CLONE_NEWCGROUP)


def _go_home(policy: Policy, layers: frozenset[str]) -> None:
    try:
        os.chdir(policy.home)
    except OSError as error:
        layer = (
            Layer.MOUNT if Layer.MOUNT in layers else Layer.UID if Layer.UID in layers else "start"
        )
        raise LayerFailed(layer, f"home {policy.home}: {error.strerror}") from error


def _default_signals() -> None:
    """As in a fresh Python, but that SIGINT kills."""
    old = signal.set_wakeup_fd(-1)
    if old >= 0:
        os.close(old)
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            ignored = number in (signal.SIGPIPE, signal.SIGXFSZ)
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _standard_streams(order: Order) -> None:
    """Nothing to read; all that is written goes to ``output_fd``."""
    output = os.dup(order.output_fd)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, fd in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, fd)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for name in ("stdout", "stderr"):
        fd = 1 if name == "stdout" else 2
        stream = open(  # noqa: SIM115
            fd, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _limit(order: Order, layers: frozenset[str]) -> None:
    policy = order.policy
    limits = {
        resource.RLIMIT_CORE: _NO_CORE,
        resource.RLIMIT_SIGPENDING: _SIGNALS,
        resource.RLIMIT_FSIZE: policy.file_bytes,
        resource.RLIMIT_NOFILE: policy.descriptors,
        resource.RLIMIT_CPU: policy.cpu_s,
    }
    if Layer.UID in layers:
        limits[resource.RLIMIT_NPROC] = policy.processes
    elif Layer.USER in layers and order.machine.own_process_count:
        limits[resource.RLIMIT_NPROC] = policy.processes + 1  # the jail init is of the same user
    if policy.address_space:
        limits[resource.RLIMIT_AS] = _addresses() + policy.memory_bytes
    for limit, value in limits.items():
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def _addresses() -> int:
    """Bytes of our own address space: a torch with CUDA in it fills gigabytes before it is used."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _rules(order: Order, layers: frozenset[str]) -> list[landlock.Rule]:
    """The allow-list once more. In a root of our own all that is there may be read."""
    policy = order.policy
    if Layer.MOUNT in layers:
        rules = [landlock.Rule("/", "read"), landlock.Rule("/dev", "device")]
        rules += [landlock.Rule(path, "own") for path in ("/dev/shm", "/tmp")]
    else:
        read = (*order.machine.view.trees, *policy.readable, *(f"/etc/{name}" for name in _ETC))
        rules = [landlock.Rule(path, "read") for path in (*read, "/sys")]
        nodes = (*(f"/dev/{name}" for name in _NODES), *policy.devices)
        rules += [landlock.Rule(path, "device") for path in nodes]
    return [*rules, *_proc_rules(layers), landlock.Rule(policy.home, "own")]


def _proc_rules(layers: frozenset[str]) -> list[landlock.Rule]:
    """Beside other processes of the same user ``/proc`` is for reading, but for this process's own
    threads, whose names CUDA's driver writes. The rule is for that directory, not for a path: later
    threads are below it, and no other process is, not even a fork of this one."""
    if Layer.PID in layers or Layer.UID in layers:
        return [landlock.Rule("/proc", "proc")]
    return [landlock.Rule("/proc", "read"), landlock.Rule("/proc/self/task", "proc")]


def _run_main(main: Callable[[], None]) -> int:
    """The exit code. The zygote's exit handlers are not run, and no thread is waited for."""
    gc.freeze()  # collecting would copy every page of the zygote's objects
    gc.enable()
    code = 0
    try:
        main()
    except SystemExit as leaving:
        if isinstance(leaving.code, int):
            code = leaving.code & 0xFF
        elif leaving.code is not None:
            print(leaving.code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        with suppress(Exception):
            flush_c_output()
    return code
