"""Whatever a candidate leaves in its home is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_sandbox.supervise.run_directory import own_directory, remove_stale, run_directory

LEAVES = """
import os, sys
os.chdir(sys.argv[1])
os.mkdir("closed")
os.mkdir("closed/inside")
os.chmod("closed", 0)
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
"""


@pytest.mark.process
def test_what_a_killed_engine_left_goes_however_deep_and_closed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "owner.lock").touch()
    subprocess.run([sys.executable, "-c", LEAVES, str(run)], check=True)
    try:
        assert remove_stale(tmp_path) == 1
        assert os.listdir(tmp_path) == []
    finally:
        subprocess.run(["rm", "-rf", str(run)], check=True)


def test_a_directory_of_somebody_elses_is_none_of_ours(tmp_path: Path) -> None:
    """Who owns it could put others in the place of what is in it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "link").symlink_to(elsewhere)
    with pytest.raises(OSError, match="somebody else's"):
        own_directory(tmp_path / "link")
    if os.getuid() == 0:
        os.chown(elsewhere, 65534, 65534)
        with pytest.raises(OSError, match="somebody else's"):
            own_directory(elsewhere)


def test_a_directory_that_others_may_write_to_is_closed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o777)
    assert own_directory(tmp_path / "runs").stat().st_mode & 0o777 == 0o700


@pytest.mark.anyio
async def test_one_that_is_not_locked_yet_is_not_taken_for_a_dead_engines(tmp_path: Path) -> None:
    young = tmp_path / ".0123456789abcdef"
    young.mkdir()
    (young / "owner.lock").touch()
    async with run_directory(tmp_path) as run:
        assert remove_stale(tmp_path) == 0
        assert run.path.is_dir()
        os.utime(young, (0, 0))
        assert remove_stale(tmp_path) == 1
    assert os.listdir(tmp_path) == []
