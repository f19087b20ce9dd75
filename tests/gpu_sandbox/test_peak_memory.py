"""What a candidate and the reference need of memory, by accounts in which they have no part."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.outcomes import Correct
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.verifier.peak_memory import beyond, calls_for
from gpu_sandbox.verifier.process_memory import device_bytes, host_bytes, jail_of
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.nvml import FakeDriver
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, candidate

MB = 1 << 20
TWICE = 440 * MB
"""What one call frees may not fit the next one's needs, which then takes as much again."""
WORKSPACE = "torch.ones(50 << 20)"
"""200 MB."""
KEPT = candidate(
    f"if not hasattr(self, 'work'):\n    self.work = {WORKSPACE}\nreturn torch.relu(a + b)"
)
CONSTRUCTED = candidate("return torch.relu(a + b)", init=f"self.work = {WORKSPACE}")
PASSING = candidate(f"work = {WORKSPACE}\nreturn torch.relu(a + b)")
MAPPED = candidate(
    "work = mmap.mmap(-1, 200 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
    "torch.frombuffer(work, dtype=torch.uint8).fill_(1)\n"
    "work = None\n"
    "return torch.relu(a + b)",
    before="import mmap",
)
"""Given back to the kernel within the call, and nothing kept of it."""
NEEDY = ADD_RELU.replace("torch.relu(a + b)", f"torch.relu(a + b) + 0 * {WORKSPACE}[0]")
WEIGHTS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4096, 8192))

    def forward(self, x):
        return x @ self.weight


def get_inputs():
    return [torch.rand(4, 4096)]


def get_init_inputs():
    return []
"""
"""128 MB of parameters."""
DIES_WHEN_ASKED = """
import os
import sys

clock = sys.modules["gpu_sandbox.worker.timed_calls"]
clock.TimedModel.release_memory = lambda self: os._exit(0)
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def judged(sandbox: LocalSandbox, task: str, source: str, **options: object) -> Correct:
    outcome = (await sandbox.evaluate(evaluation(task, source, **options))).outcome
    assert isinstance(outcome, Correct), outcome
    return outcome


@pytest.mark.anyio
async def test_an_honest_candidate_needs_what_the_reference_needs(
    shared_sandbox: LocalSandbox,
) -> None:
    outcome = await judged(shared_sandbox, ADD_RELU, HONEST)
    assert outcome.peak_bytes is not None
    assert outcome.reference_peak_bytes is not None
    assert outcome.peak_bytes < 16 * MB
    assert abs(outcome.peak_bytes - outcome.reference_peak_bytes) < 8 * MB


@pytest.mark.anyio
@pytest.mark.parametrize("source", [KEPT, CONSTRUCTED, PASSING, MAPPED],
                         ids=["since the first call", "since it was made", "in each call",
                              "given back to the kernel"])  # fmt: skip
async def test_a_workspace_counts_however_long_it_is_kept(
    shared_sandbox: LocalSandbox, source: str
) -> None:
    outcome = await judged(shared_sandbox, ADD_RELU, source)
    assert outcome.peak_bytes is not None
    assert outcome.reference_peak_bytes is not None
    least = 100 * MB if source == MAPPED else 200 * MB  # readings seldom hit the very last page
    assert least <= outcome.peak_bytes < (TWICE if source == PASSING else 240 * MB)
    assert outcome.reference_peak_bytes < 16 * MB


@pytest.mark.anyio
async def test_what_the_reference_needs_is_its_own(shared_sandbox: LocalSandbox) -> None:
    outcome = await judged(shared_sandbox, NEEDY, HONEST)
    assert outcome.peak_bytes is not None
    assert outcome.reference_peak_bytes is not None
    assert outcome.peak_bytes < 16 * MB
    assert 200 * MB <= outcome.reference_peak_bytes < TWICE


@pytest.mark.anyio
async def test_parameters_do_not_count_and_copies_of_them_do(shared_sandbox: LocalSandbox) -> None:
    same = WEIGHTS.replace("class Model(", "class ModelNew(")
    keeps_turned = same.replace(
        "return x @ self.weight",
        "if not hasattr(self, 'turned'):\n            self.turned = self.weight.t().contiguous()\n"
        "        return x @ self.turned.t()",
    )
    honest = await judged(shared_sandbox, WEIGHTS, same)
    copying = await judged(shared_sandbox, WEIGHTS, keeps_turned)
    for outcome in (honest, copying):
        assert outcome.peak_bytes is not None
        assert outcome.reference_peak_bytes is not None
        assert outcome.reference_peak_bytes < 32 * MB
    assert (honest.peak_bytes or 0) < 32 * MB
    assert 120 * MB < (copying.peak_bytes or 0) < 180 * MB


@pytest.mark.anyio
async def test_who_dies_of_being_asked_is_right_all_the_same(shared_sandbox: LocalSandbox) -> None:
    source = candidate("return torch.relu(a + b)", before=DIES_WHEN_ASKED)
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, Correct), verdict.outcome
    assert verdict.outcome.peak_bytes is None
    assert verdict.outcome.reference_peak_bytes is not None
    assert any(note.startswith("its peak memory is not known") for note in verdict.notes)


@pytest.mark.anyio
async def test_published_protocols_measure_none_of_it(shared_sandbox: LocalSandbox) -> None:
    outcome = await judged(shared_sandbox, ADD_RELU, HONEST, protocol="paper")
    assert (outcome.peak_bytes, outcome.reference_peak_bytes) == (None, None)


# --- the accounts


def test_the_driver_tells_of_the_worker_and_of_its_jail(driver: FakeDriver) -> None:
    driver.process(os.getpid(), 900 * MB)
    driver.process(100, 300 * MB)
    driver.process(101, 30 * MB)
    driver.hidden(77 * MB)
    assert device_bytes(driver.nvml, 100, {100}) == 300 * MB
    assert device_bytes(driver.nvml, 100, {100, 101, 102}) == 330 * MB
    assert device_bytes(driver.nvml, 102, {101, 102}) is None, "it is not listed"


def test_a_driver_that_does_not_say_how_much_tells_nothing(driver: FakeDriver) -> None:
    driver.process(100, 300 * MB)
    driver.process(101, (1 << 64) - 1)
    assert device_bytes(driver.nvml, 100, {100}) == 300 * MB
    assert device_bytes(driver.nvml, 100, {100, 101}) is None


GROWING = """
import subprocess, sys
if sys.argv[1] == "parent":
    child = subprocess.Popen([sys.executable, "-c", sys.argv[2], "child", ""],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    print(child.pid, flush=True)
    input()
    child.stdin.write(b"\\n")
    child.stdin.flush()
    child.stdout.readline()
else:
    print(flush=True)
    input()
    kept = b"1" * (100 << 20)
print(flush=True)
input()
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    words = [sys.executable, "-c", GROWING, "parent", GROWING]
    with subprocess.Popen(words, text=True, **pipes) as running:  # type: ignore[call-overload]
        yield running
        running.kill()


def test_the_kernel_tells_of_all_that_descend_from_a_worker(
    family: subprocess.Popen[str],
) -> None:
    assert family.stdin is not None
    assert family.stdout is not None
    child = int(family.stdout.readline())
    jail = jail_of(family.pid)
    assert {family.pid, child} <= jail
    assert os.getpid() not in jail, "this process is no jail init of its children"
    before = host_bytes(family.pid, jail)
    family.stdin.write("\n")
    family.stdin.flush()
    family.stdout.readline()
    after = host_bytes(family.pid, jail)
    assert before is not None
    assert after is not None
    assert 100 * MB <= after - before < 120 * MB
    alone = host_bytes(family.pid, {family.pid})
    assert alone is not None
    assert alone < 100 * MB


@pytest.mark.process
def test_one_that_has_ended_has_no_account() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert host_bytes(ended.pid, jail_of(ended.pid)) is None


# --- arithmetic


def test_what_any_worker_needs_is_taken_off() -> None:
    found = beyond(1000, 400, arenas=100, parameters=200, outputs=50)
    assert found == 250
    assert beyond(1000, 900, arenas=0, parameters=200, outputs=0) == 0, "weights in less memory"


@given(st.floats(1e-9, 1e4))
def test_calls_take_a_moment_or_are_one(call_s: float) -> None:
    calls = calls_for(call_s)
    assert 1 <= calls <= 500
    assert calls == 1 or calls * call_s < 0.025
