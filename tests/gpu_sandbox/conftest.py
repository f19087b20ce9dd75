"""Real sandboxes with short timings: one for a module, or one for a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from gpu_sandbox.api.evaluator import BaselineRequest, EvaluationRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.conftest import own_temp
from tests.gpu_sandbox.nvml import FakeDriver, built_into
from tests.homes import of_candidates

QUICK = Limits(bench_s=0.15, call_s=20.0, autopsy_s=0.0)


@pytest.fixture
def make_sandbox(sandbox_cache: Path) -> Callable[..., LocalSandbox]:
    def make(limits: Limits = QUICK, **options: object) -> LocalSandbox:
        return LocalSandbox(limits=limits, **{"cache": sandbox_cache, **options})  # type: ignore[arg-type]

    return make


@pytest.fixture
async def sandbox(make_sandbox: Callable[..., LocalSandbox]) -> AsyncIterator[LocalSandbox]:
    """Of this test alone: for those that look at what it leaves."""
    async with make_sandbox() as entered:
        yield entered


@pytest.fixture(scope="module")
async def shared_sandbox(
    sandbox_cache: Path, tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[LocalSandbox]:
    """For tests that look at verdicts only. Starting one costs more than most verdicts do."""
    with own_temp(tmp_path_factory.mktemp("shared")):
        async with LocalSandbox(limits=QUICK, cache=sandbox_cache) as entered:
            yield entered


def evaluation(task: str, source: str, **options: object) -> EvaluationRequest:
    fields: dict[str, object] = {"device": "cpu", "protocol": "strict", "seed": 7, **options}
    return EvaluationRequest(task_name="t", task_source=task, candidate_source=source, **fields)  # type: ignore[arg-type]


def baseline(task: str, **options: object) -> BaselineRequest:
    fields: dict[str, object] = {"device": "cpu", "protocol": "strict", "seed": 7, **options}
    return BaselineRequest(task_name="t", task_source=task, **fields)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def private_temp(tmp_path: Path) -> Iterator[Path]:
    with own_temp(tmp_path):
        yield tmp_path


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_into(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(fake_library: Path) -> FakeDriver:
    return FakeDriver(fake_library)


def left_behind(tmp_path: Path, *, waiting: bool = False) -> list[Path]:
    """Directories of candidates that were not removed, and of sandboxes that are over.
    ``waiting``: one that judged something lives still, and has the next worker."""
    return of_candidates(tmp_path.glob("gpu-sandbox-runs-*/*"), waiting=waiting)
