"""A cache that can't be written to costs time, never a verdict; and its user is told."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import PrerequisiteMissing, SandboxFault
from gpu_sandbox.builds.build_cache import BuildCache, BuildRecord
from gpu_sandbox.doctor.checks import examine
from gpu_sandbox.sandbox import LocalSandbox, default_cache
from gpu_sandbox.supervise.run_directory import run_directory
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import ADD_RELU, CPP, HONEST, inline

pytestmark = pytest.mark.anyio

NAME = f"{'0' * 24}/ext.so"


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    """Whoever asks, root too."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "cache"


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("anyio_backend", ["trio"])  # what it finds out is the file system's doing
async def test_verdicts_come_all_the_same_and_the_first_answer_says_so(
    make_sandbox: Callable[..., LocalSandbox], unwritable: Path
) -> None:
    async with make_sandbox(cache=unwritable) as sandbox:
        measured = await sandbox.baseline(baseline(ADD_RELU))
        verdicts = [
            await sandbox.evaluate(evaluation(ADD_RELU, source, reuse=True))
            for source in (inline(CPP), HONEST)
        ]
    assert [type(verdict.outcome) for verdict in verdicts] == [Correct, Correct], verdicts
    told = [note for note in measured.notes if "can't be kept in" in note]
    assert len(told) == 1
    assert str(unwritable) in told[0]
    assert not any("can't be kept in" in note for v in verdicts for note in v.notes)


def test_a_build_that_has_no_place_is_served_from_memory(tmp_path: Path, unwritable: Path) -> None:
    library = tmp_path / "library.so"
    library.write_bytes(b"built")
    cache = BuildCache(unwritable)
    with open(library, "rb+") as file:
        files = cache.store("key", [NAME], [file.fileno()], BuildRecord())
        assert files is not None
        assert files.names == [NAME]
        file.write(b"other")
        file.flush()
        assert os.pread(files.fds[0], 10, 0) == b"built"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(files.fds[0], b"x")
        files.close()
        assert cache.store("key", ["../ext.so"], [file.fileno()], BuildRecord()) is None
    assert cache.fetch("key") is None
    assert cache.prune() == 0


@pytest.mark.process
async def test_without_temporary_files_there_is_no_sandbox(
    make_sandbox: Callable[..., LocalSandbox], unwritable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(unwritable))
    with pytest.raises(PrerequisiteMissing, match="set TMPDIR"):
        async with make_sandbox():
            pass
    checks = {check.name: check for check in await examine(("cpu",), cache=unwritable)}
    assert not checks["temporary files"].ok
    assert checks["temporary files"].needed
    assert not checks["cache"].ok
    assert not checks["cache"].needed
    assert "XDG_CACHE_HOME" in checks["cache"].fix


async def test_a_home_that_has_no_place_is_a_fault(tmp_path: Path) -> None:
    async with run_directory(tmp_path) as run:
        (run.path / "file").write_text("")
        with pytest.raises(SandboxFault, match="make room"):
            run.home("file")


def test_a_user_without_a_home_has_a_cache_that_nothing_is_kept_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    assert not default_cache().is_relative_to(Path.cwd())
