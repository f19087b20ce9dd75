"""A real sandbox with short timings, and one cache for the whole session."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gpu_sandbox.limits import Limits
from gpu_sandbox.port import BaselineRequest, EvaluationRequest
from gpu_sandbox.sandbox import LocalSandbox

QUICK = Limits(bench_s=0.15, call_s=20.0, autopsy_s=0.0)


@pytest.fixture(scope="session")
def sandbox_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``STARK_TEST_CACHE`` keeps builds between runs while one works on the tests."""
    kept = os.environ.get("STARK_TEST_CACHE")
    return Path(kept) if kept else tmp_path_factory.mktemp("sandbox-cache")


@pytest.fixture
def make_sandbox(sandbox_cache: Path) -> Callable[..., LocalSandbox]:
    def make(limits: Limits = QUICK, **options: object) -> LocalSandbox:
        return LocalSandbox(limits=limits, **{"cache": sandbox_cache, **options})  # type: ignore[arg-type]

    return make


@pytest.fixture
async def sandbox(make_sandbox: Callable[..., LocalSandbox]) -> AsyncIterator[LocalSandbox]:
    async with make_sandbox() as entered:
        yield entered


def evaluation(task: str, source: str, **options: object) -> EvaluationRequest:
    fields: dict[str, object] = {"device": "cpu", "protocol": "strict", "seed": 7, **options}
    return EvaluationRequest(task_name="t", task_source=task, candidate_source=source, **fields)  # type: ignore[arg-type]


def baseline(task: str, **options: object) -> BaselineRequest:
    fields: dict[str, object] = {"device": "cpu", "protocol": "strict", "seed": 7, **options}
    return BaselineRequest(task_name="t", task_source=task, **fields)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def private_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temp directory, and so leases, of this test alone: others share the real one."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def left_behind(tmp_path: Path) -> list[Path]:
    """Directories of candidates that were not removed, and of sandboxes that are over."""
    runs = [p for p in tmp_path.glob("gpu-sandbox-runs-*/*") if p.is_dir()]
    return [home for run in runs for home in run.iterdir() if home.name.startswith(_THEIRS)]


_THEIRS = ("worker", "compile")


def processes_with(mark: str) -> list[int]:
    """Other processes that have ``mark`` among their variables or words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", pid, "environ").read_bytes()
            words = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in environment or mark.encode() in words:
            found.append(int(pid))
    return [pid for pid in found if pid != os.getpid()]
