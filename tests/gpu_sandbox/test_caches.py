"""What is evicted: twice the second level of the cores that time, as Linux tells it; and what
releases have between them that are alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.confine.freeze import Frozen
from gpu_sandbox.ipc.worker_messages import Done, Ran
from gpu_sandbox.verifier.reference.cases import Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.baseline import Baseline
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.cpu_caches import SharedCacheTraffic, private_cache_bytes
from gpu_sandbox.verifier.timing.cpu_call import SingleCalls
from tests.gpu_sandbox.sources import ADD_RELU


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


def test_each_release_alone_has_the_company_that_one_in_pairs_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | int] = []

    def release(*_: Any) -> TimedBatch:
        seen.append("release")
        return TimedBatch(1000, 2000, 0, [], Ran(tree=None, leaves=[]))

    monkeypatch.setattr(SingleCalls, "run", release)
    monkeypatch.setattr(
        SharedCacheTraffic, "pass_through", lambda company: seen.append(company.total_bytes)
    )

    @contextmanager
    def stopped() -> Iterator[Frozen]:
        seen.append("stopped")
        yield Frozen({}, lambda: (set(), set()), 0)
        seen.append("goes on")

    (tmp_path / "task.py").write_text(ADD_RELU)
    task = Task(str(tmp_path / "task.py"), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    moved = sum(t.nbytes for t in [*first.tensors, *(e.native for e in first.expected)])
    worker = SimpleNamespace(
        ask=lambda *_: Done(), stopped=stopped, used_while=lambda still: still.used_ns()
    )
    job = SimpleNamespace(protocol=PROTOCOLS["strict"], bench_s=1.0, seed=3)
    baseline = Baseline(task, cast(Any, worker), cast(Any, job), torch.device("cpu"), first)
    baseline.get_ready()
    seen.clear()
    assert len(baseline.alone(2, "alone")) == 2
    company = seen[1]
    assert seen == ["stopped", company, "goes on", "release"] * 2
    assert isinstance(company, int)
    assert company > 4 * moved


@pytest.mark.parametrize("gigabytes", [1, 1000])
def test_company_is_bounded(gigabytes: int) -> None:
    assert SharedCacheTraffic(gigabytes << 30).total_bytes == 64 << 20
