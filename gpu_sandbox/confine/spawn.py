"""Start a function in a jail.

Invariant, for a zygote (one thread, no children but jails): ``spawn`` either returns a jail
in which every layer of the survey holds, as its own process said, or raises and leaves
nothing. A jail ends when its zygote dies, by whatever cause.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from gpu_sandbox.confine import cgroups, channel
from gpu_sandbox.confine.identity import next_uid
from gpu_sandbox.confine.jail import Jail
from gpu_sandbox.confine.jail_init import Order
from gpu_sandbox.confine.jail_init import run as run_jail_init
from gpu_sandbox.confine.kernel_support import Survey
from gpu_sandbox.confine.policy import Layer, LayerFailed, Policy, SpawnFailed
from gpu_sandbox.confine.syscalls import CLONE_NEWPID, CLONE_NEWUSER, clone, prctl

__all__ = ["spawn"]

_PR_SET_CHILD_SUBREAPER = 36

_numbers = itertools.count()


def spawn(
    policy: Policy,
    survey: Survey,
    main: Callable[[], None],
    *,
    output_fd: int,
    keep_fds: Sequence[int] = (),
    environment: Mapping[str, str],
) -> Jail:
    """Run ``main`` in a fork of this process, under every layer of ``survey``.

    It gets no input, ``output_fd`` as output and error, ``keep_fds`` under their numbers,
    exactly ``environment``, and ``policy.home`` as its directory. It exits with 0 when
    ``main`` returns, 1 when it raises. The caller keeps, and closes, its own copies of the
    descriptors. Returns when ``main`` is about to run.

    Raises ``SpawnFailed`` if a layer can't be set up, ``ValueError`` for a policy that makes
    no sense. Call it in a process with one thread: a fork copies no other.
    """
    _check(policy, keep_fds)
    _be_single_threaded()
    _flush()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    number, uid = next(_numbers), _uid(survey)
    try:
        with _equipment(survey, number, policy) as (groups, ours, theirs):
            pid = _clone(
                Order(
                    policy=policy,
                    layers=survey.layers,
                    machine=survey.machine,
                    uid=uid,
                    groups=groups,
                    channel=theirs,
                    output_fd=output_fd,
                    keep_fds=tuple(keep_fds),
                    environment=environment,
                    main=main,
                )
            )
    except LayerFailed as failure:
        raise SpawnFailed(failure.layer, failure.reason) from failure
    jail = Jail(ours, pid, uid, number, survey, policy.affinity)
    try:
        jail.begin()
    except BaseException:
        jail.end(0.0)
        raise
    return jail


def _check(policy: Policy, keep_fds: Sequence[int]) -> None:
    if any(fd < 3 for fd in keep_fds):
        raise ValueError("keep_fds: 0, 1 and 2 are the candidate's own input and output")
    for path in (policy.home, *policy.readable, *policy.devices):
        if os.path.normpath(path) != path or not os.path.isabs(path):
            raise ValueError(f"{path} is not an absolute, normal path")
        if path != policy.home and path.startswith(policy.home + "/"):
            raise ValueError(f"{path} lies in home, which is the candidate's to change")
    if policy.home.count("/") < 2:
        raise ValueError(f"home {policy.home} is a directory of the system")


def _flush() -> None:
    """What is in Python's buffers would be printed by the candidate, too."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _uid(survey: Survey) -> int | None:
    if Layer.UID not in survey.layers or survey.machine.uids is None:
        return None
    return next_uid(survey.machine.uids)


@contextmanager
def _equipment(
    survey: Survey, number: int, policy: Policy
) -> Iterator[tuple[list[cgroups.Group], socket.socket, socket.socket]]:
    """Control groups and both ends of a channel, for a fork to inherit. Without a fork all of
    it is undone; after one, our end of the channel is what stays open here."""
    limited = survey.machine.hierarchies if Layer.CGROUP in survey.layers else ()
    groups = cgroups.make(limited, number, policy)
    ours, theirs = channel.pair()
    try:
        yield groups, ours, theirs
    except BaseException:
        ours.close()
        for group in groups:
            group.remove()
        raise
    finally:
        theirs.close()
        for group in groups:
            group.close()


def _be_single_threaded() -> None:
    """Raises ``SpawnFailed`` if this process has threads, whose locks a fork would keep shut.

    OpenBLAS, which comes with numpy, starts threads on import and stops them in a fork
    handler of libc; ``clone`` runs no handlers, and the jail init's own ``fork`` would wait for
    threads that it never had. One idle fork here has them stopped, until they are used.
    """
    if len(os.listdir("/proc/self/task")) == 1:
        return
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise SpawnFailed("start", f"the zygote has {threads} threads; it must have one")


def _clone(order: Order) -> int:
    layers = frozenset(order.layers)
    flags = CLONE_NEWUSER if Layer.USER in layers else 0
    flags |= CLONE_NEWPID if Layer.PID in layers else 0
    old = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = clone(flags)
        if pid == 0:
            run_jail_init(order)
    except OSError as error:
        if not flags:
            raise LayerFailed("start", str(error)) from error
        raise LayerFailed(Layer.USER if Layer.USER in layers else Layer.PID, str(error)) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    return pid
