from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from gpu_sandbox.api.check import Check
from gpu_sandbox.backends.known import BACKENDS
from gpu_sandbox.confine import Survey, cgroups
from gpu_sandbox.confine.kernel_support import inspect_machine
from gpu_sandbox.doctor import optional_tools as optional
from gpu_sandbox.doctor.checks import _older_caches, examine, isolation_checks
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.toolchain import prerequisites

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


@pytest.mark.process
async def test_the_doctor_evaluates_on_each_device_and_says_what_is_missing(
    sandbox_cache: Path,
) -> None:
    checks = {c.name: c for c in await examine(("cpu", "cuda:63"), cache=sandbox_cache)}
    assert checks["device cpu"].ok
    assert checks["torch"].ok
    assert "of at most 10 GB" in checks["build cache"].detail
    assert " of at most 65536, 0.0 MB in " in checks["kept verdicts"].detail
    assert " of at most 65536, " in checks["kept baselines"].detail
    assert checks["torch"].detail[0].isdigit()
    assert not checks["device cuda:63"].ok
    assert checks["device cuda:63"].fix
    layers = {name.removeprefix("isolation ") for name in checks if "isolation" in name}
    assert {"landlock", "seccomp", "cgroup", "namespaces:mount", "rlimits"} <= layers
    assert any(name.startswith("isolation tier ") for name in checks)
    assert all("\n" not in c.detail for c in checks.values())
    assert set(OPTIONAL) <= set(checks)
    assert msgspec.json.encode(list(checks.values()))


def test_what_is_wrong_with_a_layer_and_what_can_be_done_are_told_apart() -> None:
    refused = "[Errno 1] unshare: Operation not permitted"
    missing = {"namespaces:user": f"{refused}; sysctl user.max=1", "cgroup": "/sys/fs is read-only"}
    survey = Survey(
        layers=("seccomp",),
        missing=missing,
        findings=(),
        tier="B",
        machine=inspect_machine()[0],
    )
    checks = {check.name: check for check in isolation_checks(survey)}
    found = checks["isolation namespaces:user"]
    assert (found.detail, found.fix) == (refused, "sysctl user.max=1")
    assert checks["isolation cgroup"].fix == ""
    assert "no counters" in checks["NVIDIA's tools"].detail


OPTIONAL = ("AddressSanitizer", "compute-sanitizer", "ninja", "triton")


def looked_for() -> list[Check]:
    """What can be done without."""
    looks = [look for backend in BACKENDS for look in backend.checks.machine]
    found = [look() for look in (*looks, *optional.OPTIONAL)]
    return [check for check in found if check.name in OPTIONAL]


@pytest.mark.process
def test_what_can_be_done_without_is_named_with_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine where nothing is: an empty path, no toolkit, a compiler without libraries."""
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho libasan.so\n")
    compiler.chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not p.endswith("-packages")])
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    checks = looked_for()
    assert [check.name for check in checks] == list(OPTIONAL)
    for check in checks:
        assert not check.ok
        assert not check.needed, "nothing of it is a failure"
        assert "candidates" in check.detail
        assert "install" in check.fix


@pytest.mark.process
def test_what_is_there_is_named_with_its_place() -> None:
    checks = {check.name: check for check in looked_for()}
    assert checks["ninja"].detail == prerequisites.ninja()
    assert "libasan" in checks["AddressSanitizer"].detail
    assert all("\n" not in check.detail for check in checks.values())


@pytest.mark.process
def test_triton_is_tried_with_a_home_that_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It builds its link to the driver there: who has no home of its own can judge candidates."""
    package = tmp_path / "triton" / "runtime"
    package.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("__version__ = '9.9'\n")
    (package / "__init__.py").write_text("from triton.runtime import driver\n")
    (package / "driver.py").write_text(
        "import os, pathlib, tempfile\n"
        "class active:\n"
        "    def get_current_target():\n"
        "        with tempfile.TemporaryFile(): pathlib.Path.home().joinpath('built').touch()\n"
        "        return 'a device'\n"
    )
    (tmp_path / "driver").touch()
    monkeypatch.setattr(optional, "_DRIVER", tmp_path / "driver")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    (check,) = [check for look in optional.OPTIONAL if (check := look()).name == "triton"]
    assert check.ok, check
    assert check.detail == "9.9 on a device"


@pytest.mark.parametrize(
    ("mounts", "groups", "wrong", "advice"),
    [
        (["cgroup {at}/memory memory", "cgroup {at}/pids pids"], ["1:memory:/", "2:pids:/"],
         "memory is not writable, and {at}/pids is not writable", "cgcreate"),
        (["cgroup {at}/memory memory", "cgroup2 {at} rw"], ["1:memory:/", "0::/"],
         "memory is not writable, and no writable group with memory and pids", "cgcreate"),
        (["cgroup2 {at} rw"], ["0::/"], "no writable group with memory and pids",
         "Delegate=yes"),
        ([], ["0::/"], "no cgroup file system is mounted", ""),
    ],
    ids=["version-1", "hybrid", "version-2", "none"],
)  # fmt: skip
def test_what_to_do_about_cgroups_goes_by_their_version(
    tmp_path: Path, mounts: list[str], groups: list[str], wrong: str, advice: str
) -> None:
    lines = []
    for mount in mounts:
        kind, place, options = mount.format(at=tmp_path / "none").split()
        lines.append(f"32 31 0:29 / {place} rw,relatime - {kind} cgroup rw,{options}\n")
    (tmp_path / "mountinfo").write_text("".join(lines))
    (tmp_path / "cgroup").write_text("".join(f"{group}\n" for group in groups))
    found, reason = cgroups.find(tmp_path)
    assert found == ()
    told, _, fix = reason.partition("; ")
    assert wrong.format(at=tmp_path / "none") in told
    assert advice in fix
    assert bool(advice) == bool(fix)


@pytest.mark.process
async def test_the_doctor_attacks_every_layer_whatever_an_earlier_start_found(
    tmp_path: Path,
) -> None:
    written = []
    for _ in range(2):
        checks = {check.name: check for check in await examine((), cache=tmp_path)}
        assert any(name.startswith("isolation tier ") for name in checks)
        written.append((tmp_path / "isolation" / "survey").stat().st_mtime_ns)
    async with LocalSandbox(cache=tmp_path, require_isolation="C") as sandbox:
        await sandbox.survey()
    written.append((tmp_path / "isolation" / "survey").stat().st_mtime_ns)
    assert written[0] < written[1] == written[2]


def test_caches_of_earlier_formats_are_named_with_the_command_that_removes_them(
    tmp_path: Path,
) -> None:
    current = tmp_path / "sandbox-2"
    current.mkdir()
    assert (check := _older_caches(current)).ok
    assert (check.detail, check.fix) == ("none", "")
    old = tmp_path / "sandbox"
    for name in ("verdicts/aa/x.json", "builds/key/lib.so", "builds/other/lib.so"):
        (old / name).parent.mkdir(parents=True)
        (old / name).write_bytes(bytes(1 << 20))
    (tmp_path / "log.db.fts").touch()
    (tmp_path / "sandbox-1").symlink_to(tmp_path)
    check = _older_caches(current)
    assert check.detail == "3.0 MB of earlier formats (verdicts, builds)"
    assert check.fix == f"to remove them: rm -r {old}"
