"""What is evicted: twice the second level of the cores that time, as Linux tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_sandbox.child.caches import private_cache_bytes


def machine(at: Path, *caches: tuple[int, str, str]) -> Path:
    """``caches``: core, level, size, each in an index of its own."""
    for number, (core, level, size) in enumerate(caches):
        index = at / f"cpu{core}" / "cache" / f"index{number}"
        index.mkdir(parents=True)
        (index / "level").write_text(f"{level}\n")
        (index / "size").write_text(f"{size}\n")
    return at


@pytest.mark.parametrize(
    ("caches", "found"),
    [
        ([(1, "1", "48K"), (1, "2", "2048K"), (1, "3", "491520K")], 2 << 20),
        ([(0, "2", "512K"), (1, "2", "1M")], 1 << 20),
        ([(7, "2", "4M")], 2 << 20),
        ([(1, "2", "512M")], 16 << 20),
        ([(1, "2", "what"), (1, "two", "1M"), (1, "2", "")], 2 << 20),
        ([], 2 << 20),
    ],
    ids=["told", "the-largest", "of-other-cores", "unlikely", "unreadable", "untold"],
)
def test_the_second_level_of_the_cores_that_time(
    tmp_path: Path, caches: list[tuple[int, str, str]], found: int
) -> None:
    assert private_cache_bytes([0, 1], machine(tmp_path, *caches)) == found
