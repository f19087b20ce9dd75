"""What a survey promises: every layer was attacked in it, and held."""

from __future__ import annotations

import mmap
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpu_sandbox.confine import Layer, Survey, filesystem, landlock, processes, survey, syscalls
from gpu_sandbox.confine import seccomp_filter as seccomp
from gpu_sandbox.confine import syscall_numbers as numbers
from gpu_sandbox.confine.attacks.table import ATTACKS, Attack
from gpu_sandbox.confine.attacks.targets import Targets, targets
from gpu_sandbox.confine.policy import Policy, tier_of
from tests.confine.jails import (
    NAMESPACES,
    a_policy,
    eventually,
    found,
    group_directories,
    in_zygote,
    need,
    run,
    skip,
)
from tests.gpu_sandbox.users import blocked

pytestmark = pytest.mark.process


@in_zygote
def test_every_layer_that_is_promised_was_attacked_and_held() -> None:
    result = survey()
    assert [f for f in result.findings if not f.held] == []
    assert {f.layer for f in result.findings} == {*result.layers, "all"}
    needless = {"namespaces:user"} | ({"memory:watched"} if "cgroup" in result.layers else set())
    assert set(result.layers) | set(result.missing) | needless == set(Layer)
    assert result.tier == tier_of(
        set(result.layers), kernel_has_landlock=result.machine.landlock_abi > 0
    )
    assert msgspec.json.decode(msgspec.json.encode(result), type=Survey) == result


@in_zygote
def test_a_survey_leaves_nothing_behind(tmp_path: Path) -> None:
    fds = os.listdir("/proc/self/fd")
    mounts = Path("/proc/self/mountinfo").read_text()
    survey()
    assert processes.children(os.getpid()) == []
    assert os.listdir("/proc/self/fd") == fds
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert list(tmp_path.iterdir()) == []
    assert group_directories() == []


@in_zygote
def test_a_survey_that_is_killed_leaves_no_memory_behind() -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        with targets() as aims:
            assert aims.segment >= 0
            os.write(write, b"x")
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    assert os.read(read, 1) == b"x"
    os.waitpid(pid, 0)
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    assert eventually(lambda: os.read(read, 1) == b"")  # nor who is aimed at
    assert [row for row in rows if int(row[4]) == pid] == []


@in_zygote
def test_a_layer_that_does_nothing_is_found_out() -> None:
    if landlock.abi() < 6 or not seccomp.supported():
        skip("needs Landlock 6 and seccomp")
    real_landlock, real_seccomp = landlock.restrict, seccomp.apply
    landlock.restrict = lambda *_: None
    result = survey()
    assert "landlock" not in result.layers
    assert "an attack got through" in result.missing["landlock"]
    landlock.restrict, seccomp.apply = real_landlock, lambda *_: None
    result = survey()
    assert "seccomp" not in result.layers
    assert result.tier == "C" or "uid" not in result.layers
    seccomp.apply = real_seccomp


def _killed_on_trial(times: int) -> Survey:
    """As by the kernel, when a process of the jail that has ended still has its memory."""
    need(Layer.NO_NEW_PRIVS)
    deaths = mmap.mmap(-1, 1)

    def die(_: Targets, __: Policy) -> tuple[bool, str]:
        if deaths[0] < times:
            deaths[0] += 1
            os.kill(os.getpid(), signal.SIGKILL)
        return True, "let live"

    module: Any = sys.modules[survey.__module__]
    module.ATTACKS = (*ATTACKS, Attack("die", die, (Layer.NO_NEW_PRIVS,)))
    return survey()


@in_zygote
def test_a_trial_that_is_killed_before_it_answers_is_begun_again() -> None:
    result = _killed_on_trial(2)
    assert result.layers == found().layers
    assert [f.detail for f in result.findings if f.attack == "die"] == ["let live"] * 2


@in_zygote
def test_what_never_answers_does_not_hold() -> None:
    result = _killed_on_trial(100)
    assert Layer.NO_NEW_PRIVS not in result.layers
    assert "no answer: killed" in result.missing[Layer.NO_NEW_PRIVS]


@in_zygote
def test_what_is_turned_off_is_named() -> None:
    off = ("namespaces:mount", "seccomp", "cgroup", Layer.WATCH)
    result = survey(without=off)
    assert {layer: result.missing[layer] for layer in off} == dict.fromkeys(off, "turned off")
    assert result.tier == "C"


def test_tiers() -> None:
    walls = {f"namespaces:{name}" for name in ("mount", "net", "ipc", "pid")} | {"seccomp"}
    assert tier_of(walls | {"uid", "landlock"}, kernel_has_landlock=True) == "A"
    assert tier_of(walls | {"namespaces:user"}, kernel_has_landlock=False) == "A"
    assert tier_of(walls | {"uid"}, kernel_has_landlock=True) == "B"
    assert tier_of({"landlock", "seccomp"}, kernel_has_landlock=True) == "B"
    assert tier_of({"landlock", "rlimits"}, kernel_has_landlock=True) == "C"


def test_numbers_are_those_of_the_headers() -> None:
    """Against the C headers, where they are installed: both architectures."""
    headers = {
        0: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        1: Path("/usr/include/asm-generic/unistd.h"),
    }
    checked = 0
    for column, header in headers.items():
        if not header.is_file():
            continue
        for line in header.read_text().splitlines():
            words = line.replace("__NR3264_", "__NR_").split()
            if len(words) < 3 or words[0] != "#define" or not words[2].isdigit():
                continue
            row = numbers.TABLE.get(words[1].removeprefix("__NR_"))
            if row is not None and words[1].startswith("__NR_"):
                assert row[column] == int(words[2]), words[1]
                checked += 1
    if not checked:
        pytest.skip("no kernel headers here")


@in_zygote
def test_root_without_namespaces_has_the_rest() -> None:
    result = survey(without=NAMESPACES)
    assert [f for f in result.findings if not f.held] == []
    if "landlock" in result.layers:
        assert result.tier == "B"
    if os.geteuid() == 0 and blocked(sys.base_prefix) is not None:
        assert "other users can't read" in result.missing["uid"]


@in_zygote
def test_root_of_a_container_uses_a_user_namespace() -> None:
    """Without CAP_SYS_ADMIN, where namespaces may be made: still an own uid."""
    if os.geteuid() != 0 or syscalls.lacks(21):
        skip("needs root")
    syscalls.keep_only(~(1 << 21))
    result = survey()
    if "namespaces:user" not in result.layers:
        skip(f"no user namespaces: {result.missing}")
    assert [f for f in result.findings if not f.held] == []
    assert {"namespaces:mount", "namespaces:pid", "uid"} <= set(result.layers)
    assert result.tier == "A"
    status, text = run(lambda: print(os.getuid()), a_policy(), result)
    assert status.code == 0
    assert int(text) > 10000


@in_zygote
def test_mounts_are_locked_one_by_one_on_an_old_kernel() -> None:
    need("namespaces:mount")

    def absent(_: str) -> None:
        raise OSError(38, "mount_setattr")

    filesystem.lock_tree = absent
    assert [f for f in survey().findings if not f.held] == []
