"""Which cores time and which compile, and what is said where they are the same."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.devices.cpu_affinity import split_cores
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST

NOTE = "timed on cores that compile, too"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "trio"


@given(st.sets(st.integers(0, 200), min_size=1, max_size=80), st.integers(0, 8))
def test_cores_are_apart_where_there_are_enough(available: set[int], gpus: int) -> None:
    cores = split_cores(sorted(available), gpus)
    used = [set(timing) for timing in cores.timing]
    assert len(used) == max(gpus, 1)
    assert all(used)
    assert cores.compiling
    everything = [*used, set(cores.compiling)]
    disjoint = len(set().union(*everything)) == sum(map(len, everything))
    assert cores.apart == disjoint == (len(available) > max(gpus, 1))
    assert set().union(*everything) <= available


@given(
    st.sets(st.integers(0, 63), min_size=1),
    st.integers(0, 4),
    st.sampled_from([lambda core: core // 2, lambda core: core % 32, lambda core: core // 4]),
)
def test_threads_of_one_core_stay_together_where_there_are_enough(
    available: set[int], gpus: int, core_of: Callable[[int], int]
) -> None:
    def siblings(thread: int) -> frozenset[int]:
        return frozenset(other for other in range(64) if core_of(other) == core_of(thread))

    cores = split_cores(sorted(available), gpus, siblings)
    assert cores.compiling
    assert all(cores.timing)
    assert set().union(*cores.timing, cores.compiling) <= available
    used = [{core_of(thread) for thread in part} for part in (*cores.timing, cores.compiling)]
    if len({core_of(thread) for thread in available}) > max(gpus, 1):
        assert len(set().union(*used)) == sum(map(len, used))


@pytest.mark.process
@pytest.mark.anyio
async def test_a_time_on_cores_that_compile_says_so_once(
    make_sandbox: Callable[..., LocalSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    only = min(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {only})
    async with make_sandbox() as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
        measured = await sandbox.baseline(baseline(ADD_RELU))
    assert [NOTE in note for note in verdict.notes].count(True) == 1, verdict
    assert [NOTE in note for note in measured.notes].count(True) == 1


@pytest.mark.anyio
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
async def test_nothing_is_said_where_they_are_apart(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert NOTE not in str(verdict.notes)
