"""What compilers leave in a home, from one process of a candidate to the next."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.runtime import compiler_caches as cache_files
from gpu_sandbox.runtime.compiler_caches import lay_out, packed


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "one"
    kernel = home / "cache" / "triton" / "KEY"
    for directory in (kernel, home / "tmp"):
        directory.mkdir(parents=True)
    (kernel / "k.cubin").write_bytes(b"\0code")
    listed = {"child_paths": {"k.cubin": str(kernel / "k.cubin")}}
    (kernel / "__grp__k.json").write_text(json.dumps(listed))
    (home / "candidate.py").write_text("")
    (home / "tmp" / "other").write_text("")
    (home / "link").symlink_to("/etc/hostname")
    return home


def archived(home: Path, at: Path) -> Path:
    descriptor = packed(home)
    assert descriptor is not None
    with open(descriptor, "rb") as archive:
        archive.seek(0)
        at.write_bytes(archive.read())
    return at


def carried(home: Path, to: Path) -> list[str]:
    """All files that arrive there."""
    archive = archived(home, to.parent / "archive")
    if to == home:
        shutil.rmtree(home)
    to.mkdir()
    lay_out(archive, to)
    return sorted(str(path.relative_to(to)) for path in to.rglob("*") if path.is_file())


def test_caches_arrive_and_name_the_files_where_they_are_now(home: Path, tmp_path: Path) -> None:
    to = tmp_path / "two"
    group = "cache/triton/KEY/__grp__k.json"
    assert carried(home, to) == [group, "cache/triton/KEY/k.cubin"]
    kernel = to / "cache" / "triton" / "KEY" / "k.cubin"
    assert kernel.read_bytes() == b"\0code"
    assert json.loads((to / group).read_text()) == {"child_paths": {"k.cubin": str(kernel)}}


def test_what_names_its_home_for_good_stays_there(home: Path, tmp_path: Path) -> None:
    pickle = "cache/inductor/fxgraph/ab/key/pickle"
    (home / pickle).parent.mkdir(parents=True)
    (home / pickle).write_bytes(b"a path")
    assert pickle not in carried(home, tmp_path / "two")
    assert pickle in carried(home, home)


def test_more_than_is_kept_is_not_packed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_files, "_MOST_FILES", 1)
    assert packed(home) is None


def test_what_is_no_archive_is_forgotten(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(b"PK\3\4 but nothing else")
    lay_out(archive, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


@pytest.mark.parametrize("told", ["[]", "{}", "[" * 100_000, '{"child_paths": 1}'])
def test_a_list_of_another_form_stays_as_it_is(home: Path, tmp_path: Path, told: str) -> None:
    group = "cache/triton/KEY/__grp__k.json"
    (home / group).write_text(told)
    carried(home, tmp_path / "two")
    assert (tmp_path / "two" / group).read_text() == told


def test_an_archive_that_wants_a_password_is_forgotten(tmp_path: Path) -> None:
    archive, to = tmp_path / "archive", tmp_path / "to"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a", "x")
    data = bytearray(archive.read_bytes())
    data[6] = data[data.index(b"PK\1\2") + 8] = 1  # the flag of what is encrypted
    archive.write_bytes(data)
    to.mkdir()
    lay_out(archive, to)
    assert list(to.iterdir()) == []


def test_what_is_no_file_is_not_taken(tmp_path: Path) -> None:
    files = BuildFiles([], [])
    read, write = os.pipe()
    (tmp_path / "file").write_bytes(b"x")
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        files.add("a pipe", read)
        files.add("a file", fd)
        assert files.names == ["a file"]
        assert os.pread(files.fds[0], 9, 0) == b"x"
    finally:
        files.close()
        for each in (read, write, fd):
            os.close(each)


def test_more_than_is_kept_is_not_added(tmp_path: Path) -> None:
    files = BuildFiles([], [])
    with open(tmp_path / "holes", "w+b") as file:
        file.truncate(300 << 20)
        files.add("holes", file.fileno())
    assert files.names == []
