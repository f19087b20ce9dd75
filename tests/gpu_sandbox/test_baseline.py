from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events.outcomes import Correct, WrongResult
from gpu_sandbox.api.evaluator import Baseline, SandboxFault, TaskUnusable, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.api.timestamps import utc_now
from gpu_sandbox.backends.known import device_named
from gpu_sandbox.contention.core_time import used_ticks
from gpu_sandbox.evaluate.baselines import KnownBaselines, compiled_baseline
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, LINEAR

pytestmark = [pytest.mark.anyio, pytest.mark.process]
CPU = device_named("cpu")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "trio"


def forward(body: str) -> str:
    return ADD_RELU.replace("return torch.relu(a + b)", body)


async def test_a_baseline_has_a_runtime_and_its_spread(shared_sandbox: LocalSandbox) -> None:
    found = await shared_sandbox.baseline(baseline(LINEAR))
    assert found.runtime_ms > 0
    assert found.spread >= 0
    assert found.repetitions >= 5, "on however busy a machine"
    assert found.timings_s.keys() == {"check", "bench", "audit", "handover", "lease"}
    assert found.isolation


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("def get_inputs(:\n", "the task file failed: SyntaxError"),
        (ADD_RELU.replace("get_inputs", "inputs"), "has no get_inputs"),
        (forward("return a @ b"), "the reference failed: RuntimeError"),
        (forward("return a + b * float('nan')"), "holds NaN"),
        (forward("return 3"), "returns no tensor"),
        (forward("import os; return a + hash(os.urandom(8)) % 1_000_003"), "not deterministic"),
        (forward("import os; os._exit(1)"), "process died"),
    ],
    ids=["syntax", "incomplete", "raises", "nan", "nothing", "random", "dies"],
)
async def test_unusable_tasks_are_refused(
    shared_sandbox: LocalSandbox, task: str, reason: str
) -> None:
    with pytest.raises(TaskUnusable) as refused:
        await shared_sandbox.baseline(baseline(task))
    assert reason in refused.value.reason
    assert "\n" not in refused.value.reason


async def test_a_reference_that_hangs_is_unusable(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    async with make_sandbox(Limits(call_s=0.2)) as sandbox:
        with pytest.raises(TaskUnusable, match="too long"):
            await sandbox.baseline(baseline(forward("while True: pass")))


async def test_what_was_measured_is_kept_for_who_asks_for_it(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    async with make_sandbox(cache=tmp_path / "cache") as sandbox:
        first = await sandbox.baseline(baseline(LINEAR, reuse=True))
        again = await sandbox.baseline(baseline(LINEAR, reuse=True, seed=8))
        other = await sandbox.baseline(baseline(LINEAR, reuse=True, protocol="paper"))
    assert not first.cached
    assert again == msgspec.structs.replace(first, cached=True)
    assert not other.cached
    assert {"device", "device_name", "torch", "threads"} <= first.conditions.keys()


@contextmanager
def hogged(core: int) -> Iterator[None]:
    """While another process computes on it."""
    if used_ticks(Path("/proc/stat").read_text(), [core]) is None:
        pytest.skip("this kernel does not tell of its cores")
    program = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    running = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        running.kill()
        running.wait()


async def test_a_baseline_of_a_busy_machine_serves_its_run_and_is_not_kept(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    cache, limits = tmp_path / "cache", Limits(bench_s=1.0, call_s=20.0, autopsy_s=0.0, threads=1)
    async with make_sandbox(limits, cache=cache) as sandbox:
        core = sandbox._open.devices.timing(CPU)[0]
        with hogged(core):
            first = await sandbox.baseline(baseline(LINEAR, reuse=True))
        again = await sandbox.baseline(baseline(LINEAR, reuse=True))
    assert first.labels == ["busy-machine"]
    (note,) = [note for note in first.notes if note.startswith("busy-machine: ")]
    assert "of the time of the core that times" in note
    assert again == msgspec.structs.replace(first, cached=True)
    assert not [*cache.glob("baselines/*/*")]
    async with make_sandbox(limits, cache=cache) as sandbox:
        assert not (await sandbox.baseline(baseline(LINEAR, reuse=True))).cached


async def test_what_is_kept_says_when_it_was_measured(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    before = utc_now()
    async with make_sandbox(cache=tmp_path / "cache") as sandbox:
        found = await sandbox.baseline(baseline(LINEAR, reuse=True))
    assert before <= found.measured_at <= utc_now()
    kept = [*(tmp_path / "cache").glob("baselines/*/*")]
    assert bool(kept) == (not found.labels), found.notes


@pytest.mark.parametrize("dated", [True, False])
def test_a_kept_baseline_without_a_moment_is_dropped(tmp_path: Path, dated: bool) -> None:
    known, request = KnownBaselines(tmp_path), baseline(LINEAR)
    measured = Baseline(
        runtime_ms=1.0, spread=0.1, repetitions=50, timings_s={}, isolation=[],
        measured_at="2026-11-22T10:00:00Z" if dated else "",
    )  # fmt: skip
    known.keep(request, {}, measured)
    (file,) = tmp_path.glob("*/*")
    found = known.find(request, {})
    assert found == (msgspec.structs.replace(measured, cached=True) if dated else None)
    assert file.exists() == dated
    assert known.drop(request, {}) == dated
    assert known.find(request, {}) is None


PAIRED = Correct(
    runtime_ms=0.5, speedup=2.0, ratio=0.5, ratio_low=0.49, ratio_high=0.51, pairs=20,
    candidate_ms=0.5, baseline_ms=1.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "busy", "eager_labels", "labels"),
    [
        (PAIRED, [], [], []),
        (PAIRED, ["others"], [], ["busy-machine"]),
        (PAIRED, [], ["busy-machine"], ["busy-machine"]),
        (msgspec.structs.replace(PAIRED, ratio_high=0.55), [], [], ["busy-machine"]),
        (msgspec.structs.replace(PAIRED, ratio_high=0.55, labels=["below-resolution"]), [], [], []),
        (WrongResult(), ["others"], [], []),
    ],
)  # fmt: skip
def test_a_compiled_baseline_is_as_busy_as_what_it_comes_from(
    outcome: Correct | WrongResult, busy: list[str], eager_labels: Any, labels: list[str]
) -> None:
    eager = Baseline(
        runtime_ms=1.0, spread=0.1, repetitions=50, timings_s={}, isolation=[], labels=eager_labels
    )
    verdict = Verdict(
        outcome=outcome, protocol="strict", timings_s={}, queue_s=0.0, device="cpu",
        isolation=[], busy=busy,
    )  # fmt: skip
    found = compiled_baseline("compile", verdict, eager)
    assert found.labels == labels
    assert [n for n in found.notes if n.startswith("busy-machine: ")] == found.notes[: len(labels)]


@pytest.mark.slow
async def test_a_compiled_baseline_is_timed_in_pairs_with_eager(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    async with make_sandbox(cache=tmp_path / "cache") as sandbox:
        compiled = await sandbox.baseline(baseline(LINEAR, kind="compile"))
        eager = await sandbox.baseline(baseline(LINEAR, reuse=True))
    assert isinstance(compiled.outcome, Correct), compiled.outcome
    assert eager.cached, "it was measured on the way"
    assert eager.runtime_ms is not None
    assert compiled.runtime_ms == pytest.approx(eager.runtime_ms * compiled.outcome.ratio)
    assert compiled.conditions.keys() == eager.conditions.keys()


async def test_a_compiled_baseline_has_conditions_of_its_own(
    shared_sandbox: LocalSandbox,
) -> None:
    """The clocks may be others than when eager was measured."""
    asked = evaluation(ADD_RELU, HONEST, root_ms=1.0, conditions=True)
    verdict = await shared_sandbox.evaluate(asked)
    assert {"torch", "threads", "matmul_precision"} <= verdict.conditions.keys()
    eager = Baseline(
        runtime_ms=1.0, spread=0.1, repetitions=50, timings_s={}, isolation=[],
        conditions={"device": "cpu", "device_name": "a machine", "threads": 99},
    )  # fmt: skip
    conditions = compiled_baseline("compile", verdict, eager).conditions
    assert conditions == {"device": "cpu", "device_name": "a machine", **verdict.conditions}
    without = compiled_baseline("compile", verdict, eager, wrong=verdict)
    assert without.conditions == {**conditions, "cudnn_tf32": False}


async def test_dropout_is_deterministic_under_its_seed(shared_sandbox: LocalSandbox) -> None:
    task = forward("return torch.nn.functional.dropout(a + b, 0.5)")
    assert (await shared_sandbox.baseline(baseline(task))).runtime_ms > 0


def confined(what: str) -> str:
    """A task that behaves otherwise where it is timed, in a confined worker: files, memory and
    processor time can end there, and not in the verifier."""
    inside = f"if __name__ != 'task': {what}"
    return forward(f"import os\n        {inside}\n        return torch.relu(a + b)")


async def test_a_reference_that_fails_where_it_is_confined_is_unusable(
    shared_sandbox: LocalSandbox,
) -> None:
    task = confined("raise MemoryError('no room')")
    with pytest.raises(TaskUnusable, match="fails where it is confined: MemoryError: no room"):
        await shared_sandbox.baseline(baseline(task))
    with pytest.raises(SandboxFault, match="no room"):
        await shared_sandbox.evaluate(evaluation(task, HONEST))


async def test_a_death_of_the_references_worker_is_no_crash_of_the_candidate(
    shared_sandbox: LocalSandbox,
) -> None:
    for within_s in (2, 10, 30):  # that a busy machine takes to load it
        ends = time.time() + within_s
        task = f"import time\nleft = {ends} - time.time()\n" + confined(
            "left > 0 and (time.sleep(left), os._exit(0))"
        )
        verdict = await shared_sandbox.evaluate(evaluation(task, HONEST))
        assert isinstance(verdict.outcome, Correct), verdict
        if "judged anew after the verifier broke down" in str(verdict.notes):
            return
    raise AssertionError(verdict)
