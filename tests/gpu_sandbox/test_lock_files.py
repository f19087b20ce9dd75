"""All engines of a host lock a device by the same file: other users', and in other places."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.devices import lock_files
from gpu_sandbox.devices.lease import Leases
from gpu_sandbox.devices.lock_files import lock_directory, lock_file, opened
from tests.conftest import MACHINE_TEMP
from tests.gpu_sandbox.leasing import another, is_free, protecting

pytestmark = pytest.mark.anyio

AS_NOBODY = ("-m", "tests.gpu_sandbox.users", sys.executable)


@pytest.fixture
def everybody_s() -> Iterator[Path]:
    """As /tmp is, and where another user can reach it; pytest's own directories are private."""
    directory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.process
async def test_engines_with_temp_directories_of_their_own_see_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the real place: on a device that nobody has."""
    monkeypatch.delenv(lock_files.VARIABLE)
    device = f"none-{os.getpid()}"
    try:
        with another(device, TMPDIR=str(MACHINE_TEMP)) as other:
            assert other.says() == "held"
            async with anyio.create_task_group() as group:
                assert not await is_free(Leases(group), device)
        async with anyio.create_task_group() as group:
            assert await is_free(Leases(group), device, within_s=20)
    finally:
        lock_file(lock_directory(), device).unlink(missing_ok=True)


def test_the_place_is_one_that_lets_everybody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(lock_files.VARIABLE)
    places = [tmp_path / name for name in ("absent", "root-s", "everybody-s", "temp")]
    for place in places[1:]:
        place.mkdir(mode=0o775)
    places[2].chmod(0o1777)
    monkeypatch.setattr(lock_files, "_SHARED", tuple(places))
    assert lock_directory() == places[2]
    places[2].chmod(0o755)
    assert lock_directory() == places[3], "the last one does for want of another"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.mark.process
@needs_root
async def test_who_made_the_file_keeps_no_other_user_out(
    everybody_s: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a kernel with ``fs.protected_regular``: here its rule is in ``os.open``."""
    monkeypatch.setenv(lock_files.VARIABLE, str(everybody_s))
    monkeypatch.setattr(os, "open", protecting(os.open))
    async with anyio.create_task_group() as group:
        leases = Leases(group)
        with another("--apart", "theirs", through=AS_NOBODY) as other:
            assert other.says() == "held"
            assert lock_file(everybody_s, "theirs").stat().st_uid != 0
            assert not await is_free(leases, "theirs")
        assert await is_free(leases, "theirs", within_s=20)
        before = os.umask(0o077)
        try:
            assert await is_free(leases, "ours")
        finally:
            os.umask(before)
        with another("--apart", "ours", through=AS_NOBODY) as other:
            assert other.says() == "held"
            assert not await is_free(leases, "ours")
    assert sorted(os.listdir(everybody_s)) == ["gpu-sandbox-ours.lock", "gpu-sandbox-theirs.lock"]


@pytest.mark.process
@needs_root
def test_whom_a_file_keeps_out_is_told_which_and_what_to_do(everybody_s: Path) -> None:
    path = lock_file(everybody_s, "ours")
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    place = {lock_files.VARIABLE: str(everybody_s)}
    with another("ours", through=AS_NOBODY, **place) as other:
        said = other.says()
        assert f"{path}: Permission denied" in said
        assert "chmod 666" in said
        assert lock_files.VARIABLE in said


async def test_what_is_no_lock_file_is_refused(tmp_path: Path) -> None:
    link, pipe = lock_file(tmp_path, "link"), lock_file(tmp_path, "pipe")
    link.symlink_to(tmp_path / "target")
    os.mkfifo(pipe)
    async with anyio.create_task_group() as group:
        leases = Leases(group, tmp_path)
        for device, why in {"link": "symbolic link", "pipe": "not a plain file"}.items():
            with pytest.raises(
                PrerequisiteMissing, match=f"{lock_file(tmp_path, device)}: .*{why}"
            ):
                await is_free(leases, device)
        assert (leases.waiting, leases.holding) == (0, 0)
    assert not (tmp_path / "target").exists()


def test_who_makes_it_a_moment_later_has_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = lock_file(tmp_path, "gpu"), os.link

    def late(made: str, name: Path) -> None:
        other = os.open(name, os.O_CREAT | os.O_EXCL, 0o666)
        os.close(other)
        link(made, name)

    monkeypatch.setattr(os, "link", late)
    descriptor = opened(path)
    assert os.fstat(descriptor).st_ino == path.stat().st_ino
    os.close(descriptor)
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_in_use_does_not_look_old(tmp_path: Path) -> None:
    """Where /tmp is cleared of old files, another engine would make a new one."""
    path = lock_file(tmp_path, "gpu")
    os.close(opened(path))
    os.utime(path, (1, 1))
    os.close(opened(path))
    assert path.stat().st_mtime > 1
