"""The cache of finished builds, and its bound. Files only."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec

from events.outcomes import KernelResources
from gpu_sandbox.builds.build_cache import BuildCache, BuildRecord

RECORD = BuildRecord(
    resources=[KernelResources(kernel="add", registers=12)], lines={"0/main.cpp": [0, 3]}
)
SIZE = 10_000
"""Of an entry: a library, and the record."""
LIBRARY = SIZE - len(msgspec.json.encode(RECORD))


def store(cache: BuildCache, key: str, tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    library.write_bytes(key[:1].encode() * LIBRARY)
    with open(library, "rb") as file:
        files = cache.store(key, [f"{'0' * 24}/ext.so"], [file.fileno()], RECORD)
    if files is not None:
        files.close()


def known(cache: BuildCache, key: str) -> bytes | None:
    files = cache.fetch(key)
    if files is None:
        return None
    try:
        return os.pread(files.fds[0], 1, 0)
    finally:
        files.close()


def used_at(root: Path, key: str, when: float) -> None:
    os.utime(root / key, (when, when))


def test_what_is_known_of_a_build_is_kept_beside_its_files(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "builds")
    store(cache, "a", tmp_path)
    files = cache.fetch("a")
    assert files is not None
    files.close()
    assert files.record == RECORD


def test_a_damaged_entry_is_none_and_makes_room_for_a_new_one(tmp_path: Path) -> None:
    root = tmp_path / "builds"
    cache = BuildCache(root)
    store(cache, "a", tmp_path)
    (root / "a" / "record.json").write_bytes(b"\0" * 40)
    assert cache.fetch("a") is None
    store(cache, "a", tmp_path)
    assert known(cache, "a") == b"a"


def test_the_least_recently_used_go_when_there_are_too_many(tmp_path: Path) -> None:
    root = tmp_path / "builds"
    cache = BuildCache(root, 10 * SIZE)
    for number, key in enumerate("abcdefgh"):
        store(cache, key, tmp_path)
        used_at(root, key, 1000.0 + number)
    assert cache.size() == (8, 8 * SIZE)
    assert cache.prune() == 0, "they fit"
    assert known(cache, "a") == b"a", "and a is the last used now"
    assert BuildCache(root, 4 * SIZE).prune() == 5
    assert [key for key in "abcdefgh" if known(cache, key)] == ["a", "g", "h"]
    assert sorted(path.name for path in root.iterdir()) == ["a", "g", "h"]


def test_storing_keeps_it_within_its_bound_by_itself(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "builds", 5 * SIZE)
    for number in range(20):
        store(cache, f"key{number}", tmp_path)
    assert cache.size()[1] <= 5 * SIZE * 1.05
    assert known(cache, "key19") == b"k"


def test_who_has_a_build_open_keeps_it(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "builds", 0)
    library = tmp_path / "library.so"
    library.write_bytes(b"x" * SIZE)
    with open(library, "rb") as file:
        files = cache.store("key", [f"{'0' * 24}/ext.so"], [file.fileno()], RECORD)
    assert files is not None, "even where there is room for nothing"
    assert cache.size() == (0, 0)
    assert os.pread(files.fds[0], 1, 0) == b"x"
    files.close()


def test_what_a_killed_engine_left_goes_after_an_hour(tmp_path: Path) -> None:
    root = tmp_path / "builds"
    for name in (".key.1.abcd", ".key.gone.abcd"):
        (root / name).mkdir(parents=True)
    used_at(root, ".key.1.abcd", 1000.0)
    BuildCache(root).prune()
    assert [path.name for path in root.iterdir()] == [".key.gone.abcd"]


def test_several_engines_prune_and_read_at_once(tmp_path: Path) -> None:
    """Whoever gets a build gets all of it, whatever the others drop meanwhile."""
    root, wrong = tmp_path / "builds", []

    def work(number: int) -> None:
        own = tmp_path / str(number)
        own.mkdir()
        cache = BuildCache(root, 3 * SIZE)
        for turn in range(60):
            key = "abcdef"[(turn + number) % 6]
            if known(cache, key) not in (None, key.encode()):
                wrong.append(key)
            store(cache, key, own)
            cache.prune()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    BuildCache(root, 3 * SIZE).prune()
    assert BuildCache(root).size()[1] <= 3 * SIZE
