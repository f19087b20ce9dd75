"""Promises, kept or raised."""

from __future__ import annotations

import os
import threading
import warnings

import msgspec
import pytest

from gpu_sandbox.confine import (
    Policy,
    SpawnFailed,
    Survey,
    landlock,
    processes,
)
from gpu_sandbox.confine.cgroups import Hierarchy
from tests.confine.jails import a_policy, found, group_directories, in_zygote, run, running

pytestmark = pytest.mark.process


@in_zygote
def test_a_promise_that_fails_is_an_error_and_leaves_nothing() -> None:
    machine = found().machine
    nowhere = Hierarchy(version=1, base="/nonexistent", controllers=("pids",))
    broken: dict[str, tuple[Survey, Policy]] = {
        "namespaces:mount": (found(), a_policy(readable=("/nonexistent/path",))),
        "cgroup": (
            msgspec.structs.replace(
                found(), machine=msgspec.structs.replace(machine, hierarchies=(nowhere,))
            ),
            a_policy(),
        ),
        "landlock": (
            msgspec.structs.replace(
                found(), machine=msgspec.structs.replace(machine, landlock_abi=0)
            ),
            a_policy(),
        ),
    }
    fds = os.listdir("/proc/self/fd")
    ran = False
    for layer, (promised, policy) in broken.items():
        if layer not in found().layers:
            continue
        if layer == "landlock":
            landlock.restrict = _refuse
        with pytest.raises(SpawnFailed) as failure, running(lambda: print("ran"), policy, promised):
            ran = True
        assert failure.value.layer == layer
        assert failure.value.reason
    assert not ran
    assert os.listdir("/proc/self/fd") == fds
    assert processes.children(os.getpid()) == []
    assert group_directories() == []


def _refuse(*_: object) -> None:
    raise OSError(1, "refused")


@in_zygote
def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="not an absolute"):
        run(lambda: None, a_policy("relative"))
    with pytest.raises(ValueError, match="system"):
        run(lambda: None, a_policy("/usr"))
    home = a_policy().home
    with pytest.raises(ValueError, match="lies in home"):
        run(lambda: None, a_policy(home, readable=(f"{home}/x",)))
    with pytest.raises(ValueError, match="keep_fds"):
        run(lambda: None, keep_fds=(1,))


@in_zygote
def test_a_zygote_with_threads_is_refused() -> None:
    found()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    warnings.simplefilter("ignore")  # Python 3.12 warns of the same
    with pytest.raises(SpawnFailed, match="2 threads"):
        run(lambda: None)
    stop.set()
    thread.join()
    assert run(lambda: None)[0].code == 0
