"""Start a function in a jail.

Invariant, for a zygote (one thread, no children but jails): ``spawn`` returns a jail in which every
layer of the survey holds, or raises and leaves nothing. A jail ends when its zygote dies.
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

    It gets no input, ``output_fd`` as output and error, ``keep_fds`` under their numbers, exactly
    ``environment``, and ``policy.home`` as its directory. It exits with 0 when ``main`` returns, 1
    when it raises. Returns when ``main`` is about to run; descriptors stay the caller's.

    Raises ``SpawnFailed`` if a layer can't be set up, ``ValueError`` for a policy that makes no
    sense. Call it in a process with one thread: a fork copies no other.
    """
    _check(policy, keep_fds)
    _be_single_threaded()
    for stream in (sys.stdout, sys.stderr):  # or the candidate would print what is buffered, too
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    number, uids = next(_numbers), survey.machine.uids
    uid = next_uid(uids) if Layer.UID in survey.layers and uids is not None else None
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


@contextmanager
def _equipment(
    survey: Survey, number: int, policy: Policy
) -> Iterator[tuple[list[cgroups.Group], socket.socket, socket.socket]]:
    """Control groups and both ends of a channel, for a fork to inherit. Our end stays open
    afterwards; if the fork fails, nothing does."""
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

    OpenBLAS starts threads on import and stops them in a fork handler, which ``clone`` does not
    run. One idle fork here has them stopped, until they are used.
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
