"""What becomes of candidates, right and wrong. One backend: no concurrency is at stake."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from events.outcomes import (
    CompileFailed,
    Correct,
    Crashed,
    Outcome,
    Refused,
    TimedOut,
    WrongResult,
)
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import (
    ADD_RELU,
    HONEST,
    LINEAR,
    ODD_TYPES,
    SLOWER,
    as_candidate,
    candidate,
)

pytestmark = [pytest.mark.anyio, pytest.mark.process]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def judge(sandbox: LocalSandbox, source: str, task: str = ADD_RELU) -> Outcome:
    return (await sandbox.evaluate(evaluation(task, source))).outcome


@pytest.mark.parametrize("task", [LINEAR, ODD_TYPES], ids=["weights", "types"])
async def test_the_reference_itself_is_correct(shared_sandbox: LocalSandbox, task: str) -> None:
    outcome = await judge(shared_sandbox, as_candidate(task), task)
    assert isinstance(outcome, Correct), outcome


@pytest.mark.alone
async def test_on_the_cpu_there_is_one_time_and_the_first_call_has_its_own(
    shared_sandbox: LocalSandbox,
) -> None:
    slow = "time.sleep(0.3)\n    self.warm = True"
    source = candidate(
        f"if not self.warm:\n    {slow}\nreturn torch.relu(a + b)",
        before="import time",
        init="self.warm = False",
    )
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, Correct), verdict
    assert verdict.outcome.eager_speedup is None
    assert verdict.outcome.first_call_ms is not None
    assert 300 < verdict.outcome.first_call_ms < 2000
    assert any(note.startswith("its first call took ") for note in verdict.notes)
    assert "host-bound" not in verdict.outcome.labels


async def test_a_slower_candidate_is_correct_and_slower(shared_sandbox: LocalSandbox) -> None:
    outcome = await judge(shared_sandbox, SLOWER)
    assert isinstance(outcome, Correct)
    assert outcome.ratio > 1.2


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("return a + b", "relative L2 error"),
        ("return torch.relu(a + b)[:-1]", "expected shape [64, 128], got [63, 128]"),
        ("return torch.relu(a + b).double()", "expected dtype float32, got float64"),
        ("return [torch.relu(a + b)] * 2", "structure differs"),
        ("return torch.relu(a + b) + float('nan')", "NaN"),
        ("out = torch.relu(a + b)\nout[-1, -1] += 0.01\nreturn out", "error"),
        ("a.add_(b).clamp_(min=0)\nreturn a.clone()", "changed its inputs"),
        ("return a.add_(b).clamp_(min=0)", "shares memory with an input"),
        ("return torch.relu(a.half() + b.half()).float()", "relative L2 error"),
        ("return torch.relu(a + b) * -1.0", "only signs differ"),
        (
            "if not hasattr(self, 'out'):\n    self.out = torch.empty_like(a)\n"
            "return torch.add(a, b, out=self.out).clamp_(min=0)",
            "output changed in a later call",
        ),
    ],
)
async def test_wrong_results(shared_sandbox: LocalSandbox, forward: str, reason: str) -> None:
    outcome = await judge(shared_sandbox, candidate(forward))
    assert isinstance(outcome, WrongResult), outcome
    assert reason in outcome.reason
    assert outcome.trial == 1


async def test_a_difference_is_shown_with_its_place(shared_sandbox: LocalSandbox) -> None:
    forward = "print('hello from forward')\nout = torch.relu(a + b)\nout[3, 5] = -7\nreturn out"
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, candidate(forward)))
    assert isinstance(verdict.outcome, WrongResult)
    assert "1 of 8192 elements" in verdict.outcome.reason
    assert verdict.observations is not None
    assert "at (3, 5): expected" in verdict.observations.difference
    assert "got -7 (off by" in verdict.observations.difference
    assert set(verdict.run_log.splitlines()) == {"hello from forward"}
    assert verdict.outcome.max_abs_error is not None
    assert verdict.outcome.max_abs_error > 6.9


@pytest.mark.parametrize(
    ("forward", "told"),
    [
        (
            "out[:, 121:] = 0",
            ["dim 1: 121..127 (the last 7 of 128)", "every wrong element is 0", "relative 1)"],
        ),
        ("out[60:] = float('nan')", ["dim 0: 60..63 (the last 4 of 64) (all of", "is NaN"]),
        ("out[1::4, 8:24] += 1", ["dim 0: every 4th index from 1 to 61, of 64; dim 1: 8..23 (16"]),
        ("out *= 0.5", ["got is expected times 0.5 nearly everywhere", "the worst at ("]),
        ("out = a + b", ["every wrong element should be 0"]),
    ],
)
async def test_where_and_how_an_output_is_wrong(
    shared_sandbox: LocalSandbox, forward: str, told: list[str]
) -> None:
    source = candidate(f"out = torch.relu(a + b)\n{forward}\nreturn out")
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, WrongResult)
    assert "(trial 1: random inputs)" in verdict.outcome.reason
    assert verdict.observations is not None
    difference = verdict.observations.difference
    assert all(part in difference for part in told), difference
    assert len(difference) < 1000
    assert verdict.run_log == ""


async def test_a_result_that_is_imprecise_everywhere_says_so(shared_sandbox: LocalSandbox) -> None:
    forward = "return torch.relu(a.half() + b.half()).float()"
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, candidate(forward)))
    assert isinstance(verdict.outcome, WrongResult)
    share = int(verdict.outcome.reason.partition("(")[2].partition(" of 8192")[0])
    assert share > 1000
    assert verdict.observations is not None
    assert "all wrong elements" not in verdict.observations.difference


async def test_right_in_the_trials_and_wrong_when_timed(shared_sandbox: LocalSandbox) -> None:
    forward = "self.n += 1\nreturn torch.relu(a + b) if self.n < 6 else torch.zeros_like(a)"
    outcome = await judge(shared_sandbox, candidate(forward, init="self.n = 0"))
    assert isinstance(outcome, WrongResult)


@pytest.mark.parametrize(
    ("forward", "before", "reason"),
    [
        ("raise ValueError('no luck')", "", "in forward: ValueError: no luck"),
        ("import sys; sys.exit(3)", "", "in forward: SystemExit: 3"),
        ("import os; os._exit(3)", "", "exited with 3 in forward"),
        ("return object()", "", "a value of type builtins.object"),
    ],
)
async def test_crashes(
    shared_sandbox: LocalSandbox, forward: str, before: str, reason: str
) -> None:
    outcome = await judge(shared_sandbox, candidate(forward, before=before))
    assert isinstance(outcome, Crashed), outcome
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("otherwise", "note"),
    [
        ("raise ValueError('finite, please')", "it raises where NaN or infinity is in the input"),
        ("import os; os.kill(os.getpid(), 11)", "it dies where NaN or infinity is in the input"),
        ("import time; time.sleep(60)", "it does not end where NaN or infinity is in the input"),
        (
            "a, b = a.nan_to_num(), b.nan_to_num()",
            "NaN or infinity in the input comes out unlike the reference's",
        ),
    ],
)
async def test_what_it_makes_of_nan_is_a_note(
    shared_sandbox: LocalSandbox, otherwise: str, note: str
) -> None:
    forward = f"if not torch.isfinite(a).all():\n    {otherwise}\nreturn torch.relu(a + b)"
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, candidate(forward)))
    assert isinstance(verdict.outcome, Correct), verdict.outcome
    assert note in verdict.notes


async def test_what_fails_besides_does_not_cost_the_verdict(
    shared_sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def out_of_descriptors(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("gpu_sandbox.evaluate.evaluation.examined", out_of_descriptors)
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct), verdict.outcome
    assert any("no autopsy: [Errno 24]" in note for note in verdict.notes)


async def test_a_segfault_is_a_crash_with_its_signal(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(
        evaluation(ADD_RELU, candidate("import ctypes\nctypes.string_at(0)"))
    )
    assert isinstance(verdict.outcome, Crashed)
    assert verdict.outcome.signal == signal.SIGSEGV
    assert "SIGSEGV in forward (trial 1: random inputs)" in verdict.outcome.reason
    assert verdict.run_log.endswith("in string_at\ncandidate.py:9 in forward")


async def test_a_raise_shows_the_candidates_own_lines(shared_sandbox: LocalSandbox) -> None:
    source = candidate("return torch.relu(a @ b)")
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, Crashed)
    assert "candidate.py:8 in forward: return torch.relu(a @ b)" in verdict.run_log
    assert "site-packages" not in verdict.run_log


async def test_a_syntax_error_shows_its_line(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, candidate("return a +")))
    assert isinstance(verdict.outcome, CompileFailed)
    assert verdict.compile_log.splitlines()[0].startswith("candidate.py:8:")
    assert "    8 |         return a +" in verdict.compile_log


async def test_what_does_not_import_did_not_compile(shared_sandbox: LocalSandbox) -> None:
    outcome = await judge(shared_sandbox, candidate("return a", before="import no_such_module"))
    assert isinstance(outcome, CompileFailed)
    assert "no_such_module" in outcome.reason


@pytest.mark.parametrize(
    "forward", ["while True: pass", "import time; time.sleep(1000)"], ids=["spin", "sleep"]
)
async def test_a_hang_is_cut_off(make_sandbox: Callable[..., LocalSandbox], forward: str) -> None:
    async with make_sandbox(Limits(call_s=0.5, bench_s=0.1)) as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, candidate(forward)))
    outcome = verdict.outcome
    assert isinstance(outcome, TimedOut), outcome
    assert (outcome.stage, outcome.limit_s) == ("run", 0.5)
    assert verdict.run_log.splitlines() == [
        "when it was stopped, innermost call first:",
        "candidate.py:8 in forward",
    ]


SLOW_CLOCK = """
import gpu_sandbox.worker.timed_calls as clock
now = clock._now
clock._now = lambda: now() // 10
"""
SMALL_CLAIMS = """
import gpu_sandbox.ipc.cpu_call_messages as signals
told = signals.Answer.encode
signals.Answer.encode = lambda self, ns, *rest: told(self, ns // 10, *rest)
"""


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(
    "before", [SLOW_CLOCK, SMALL_CLAIMS, SMALL_CLAIMS.replace("// 10", "// 1000")]
)
async def test_a_claim_that_the_outer_clock_does_not_bear_out_is_no_score(
    shared_sandbox: LocalSandbox, before: str
) -> None:
    task = ADD_RELU.replace("(64, 128)", "(1024, 1024)")
    source = candidate("return torch.relu(a + b)", before=before)
    verdict = await shared_sandbox.evaluate(evaluation(task, source))
    assert isinstance(verdict.outcome, Correct)
    assert verdict.outcome.speedup < 3
    assert any("timing disputed" in note for note in verdict.notes)


@pytest.mark.parametrize("protocol", ["kernelbench", "paper"])
async def test_the_other_protocols(shared_sandbox: LocalSandbox, protocol: str) -> None:
    close = candidate("return torch.relu(a + b) + 5e-5")
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, close, protocol=protocol))
    assert isinstance(verdict.outcome, Correct), verdict.outcome
    assert verdict.protocol == protocol
    if protocol == "kernelbench":
        strict = await shared_sandbox.evaluate(evaluation(ADD_RELU, close))
        assert isinstance(strict.outcome, WrongResult)


async def test_a_broken_task_is_not_the_candidates_fault(shared_sandbox: LocalSandbox) -> None:
    task = ADD_RELU.replace("return torch.relu(a + b)", "raise RuntimeError('task')")
    with pytest.raises(SandboxFault, match="task"):
        await judge(shared_sandbox, candidate("return a"), task)


FALLS_BACK = candidate(
    "try:\n    return torch.ops.mine.add_relu(a, b)\n"
    "except AttributeError:\n    return torch.relu(a + b)"
)


async def test_a_verdict_has_them_and_a_request_may_refuse_them(
    shared_sandbox: LocalSandbox,
) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct)
    assert "torch-only" in verdict.outcome.labels
    assert verdict.notes[-1].startswith("torch-only: no kernel of its own")
    refuse = {"refuse": ("torch-only", "fallback")}
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, FALLS_BACK, **refuse))
    assert isinstance(verdict.outcome, Refused)
    assert verdict.outcome.label == "fallback"
    assert "candidate.py:10: what fails is done by torch.relu instead" in verdict.outcome.reason
    assert verdict.timings_s["bench"] > 0, "it was judged"


OUTER = ADD_RELU.replace("torch.relu(a + b)", "torch.outer(a, b)").replace(
    "torch.randn(64, 128), torch.randn(64, 128)", "torch.randn(1024), torch.randn(1024)"
)
CLAIMS = """
import sys
import torch
import torch.nn as nn

clock = sys.modules["gpu_sandbox.worker.timed_calls"]
time_cpu = clock.TimedModel._time_cpu


def claimed(self, seed, slot):
    time_cpu(self, seed, slot)
    return 20_000


clock.TimedModel._time_cpu = claimed


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.outer(a, b)
"""


async def test_nothing_is_written_faster_than_memory_can_be_filled(
    shared_sandbox: LocalSandbox,
) -> None:
    """By that, or by the outer clock, where that says more."""
    verdict = await shared_sandbox.evaluate(evaluation(OUTER, CLAIMS))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "timing disputed" in str(verdict.notes), verdict.notes
    assert verdict.outcome.ratio * verdict.outcome.baseline_ms > 0.04, "4 MB in 40 us: 100 GB/s"
