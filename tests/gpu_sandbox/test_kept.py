"""Kept files and their bound, with several processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_sandbox.store.file_cache import KeptFiles

MOST = 8 * 256


def shelf(number: int, shelf: str = "ab") -> str:
    return f"{shelf}{number:06}.json"


def test_what_is_kept_is_found_and_the_last_one_stays(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path / "kept")
    assert files.find(shelf(1)) is None
    files.keep(shelf(1), b"one")
    files.keep(shelf(1), b"another")
    assert files.find(shelf(1)) == b"another"
    assert files.size() == (1, 7)
    assert KeptFiles(tmp_path / "kept").find(shelf(1)) == b"another"


def test_the_least_recently_used_of_a_full_shelf_go(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path, MOST)
    files.keep(shelf(1, "cd"), b"x")
    for number in range(8):
        files.keep(shelf(number), b"x")
        os.utime(tmp_path / "ab" / shelf(number), (1000 + number, 1000 + number))
    assert files.size() == (9, 9), "the shelf is full"
    assert files.find(shelf(0)) == b"x", "and this one was used just now"
    files.keep(shelf(8), b"x")
    left = sorted(path.name for path in (tmp_path / "ab").iterdir())
    assert left == [shelf(number) for number in (0, 3, 4, 5, 6, 7, 8)]
    assert files.find(shelf(1, "cd")) == b"x", "older, and on another shelf"


def test_what_a_killed_process_left_goes_like_the_rest(tmp_path: Path) -> None:
    files = KeptFiles(tmp_path, MOST)
    files.keep(shelf(0), b"x")
    left = tmp_path / "ab" / f".{shelf(0)}.0123abcd"
    left.write_bytes(b"ha")
    os.utime(left, (1000, 1000))
    for number in range(1, 9):
        files.keep(shelf(number), b"x")
    assert not left.exists()


def test_what_cannot_be_written_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = KeptFiles(tmp_path / "file")
    files.keep(shelf(1), b"x")
    assert files.find(shelf(1)) is None
    assert files.size() == (0, 0)


WORK = """
import sys
from pathlib import Path
from gpu_sandbox.store.file_cache import KeptFiles
files = KeptFiles(Path(sys.argv[1]), 8 * 256)
for turn in range(400):
    name = f"ab{(turn * int(sys.argv[2])) % 50:06}.json"
    assert files.find(name) in (None, name.encode() * 1000), name
    files.keep(name, name.encode() * 1000)
"""


@pytest.mark.process
def test_several_processes_keep_and_find_at_once(tmp_path: Path) -> None:
    """Whoever finds a file gets all of it, and together they stay within the bound."""
    processes = [
        subprocess.Popen([sys.executable, "-c", WORK, str(tmp_path), str(step)])
        for step in (1, 7, 11)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    files = KeptFiles(tmp_path, MOST)
    files.keep(shelf(99), b"x")
    assert files.size()[0] <= 8
    assert not list(tmp_path.glob("*/.*"))
