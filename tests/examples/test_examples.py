"""Our own tasks and their playbooks: they hold together, and the kernels do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.clients.playbook import PlaybookClient
from agents.languages import LANGUAGES
from engine.cli.source_files import read_task
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.examples.kernels import PLAYBOOKS, REPOSITORY, Expected, expectations, outcomes

TASKS = sorted((REPOSITORY / "examples").glob("*.py"))
BOOKS = sorted(PLAYBOOKS.glob("*_*.toml"))
OUTCOMES = {"correct", "compile_failed", "wrong_result", "crashed", "timed_out"}


def test_there_are_six_tasks_and_playbooks_for_three() -> None:
    assert len(TASKS) >= 6
    by_language = {
        language: {book.name for book in BOOKS if book.name.endswith(f"_{language}.toml")}
        for language in LANGUAGES
    }
    assert len(by_language["cpp"]) >= 3
    assert len(by_language["cuda"]) >= 2


@pytest.mark.parametrize("task", TASKS, ids=lambda path: path.stem)
def test_a_task_is_in_kernelbench_form(task: Path) -> None:
    assert "class Model" in read_task(task)


@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_a_playbook_holds_together(book: Path) -> None:
    client = PlaybookClient(book)
    assert client.task_path.resolve() in TASKS
    assert client.language == book.stem.rsplit("_", 1)[1]
    kinds = {e.outcome for e in expectations() if e.kernel.parent.name == book.stem}
    assert {"correct", "compile_failed", "wrong_result"} <= kinds


def test_every_kernel_says_what_it_comes_to() -> None:
    listed = {expected.kernel for expected in expectations()}
    assert {path for path in PLAYBOOKS.glob("*/*.py")} <= listed
    assert all(e.kernel.exists() and e.task.exists() for e in expectations())
    assert {expected.outcome for expected in expectations()} <= OUTCOMES


def _chosen(names: set[str]) -> list[Expected]:
    found = [e for e in expectations() if f"{e.kernel.parent.name}/{e.kernel.stem}" in names]
    assert len(found) == len(names)
    return found


@pytest.mark.process
@pytest.mark.compiles
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_some_kernels_do_what_they_say(sandbox_cache: Path) -> None:
    """One of each kind, for the task that is checked fastest, and the in-context C++ example.
    `make test-all` takes them all."""
    chosen = _chosen({
        "drawdown_cpp/naive", "drawdown_cpp/broken_compile", "drawdown_cpp/wrong_mark",
        "drawdown_cpp/fixed_mark", "cpp/solution",
    })  # fmt: skip
    async with LocalSandbox(("cpu",), limits=Limits(bench_s=0.2), cache=sandbox_cache) as sandbox:
        found = await outcomes(sandbox, chosen, "cpu")
    assert all(expected == real for expected, real in found.values()), found


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_all_cpu_kernels_do_what_they_say(sandbox_cache: Path) -> None:
    chosen = [expected for expected in expectations() if expected.language == "cpp"]
    async with LocalSandbox(("cpu",), limits=Limits(bench_s=0.2), cache=sandbox_cache) as sandbox:
        found = await outcomes(sandbox, chosen, "cpu")
    assert all(expected == real for expected, real in found.values()), found
