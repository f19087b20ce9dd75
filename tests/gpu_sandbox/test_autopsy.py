"""Why a candidate crashed: real sanitizer on the CPU, a fake one for CUDA."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from events.outcomes import Correct, Crashed, Outcome, TimedOut, WrongResult
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.api.progress import told_to
from gpu_sandbox.backends.compute_sanitizer import ComputeSanitizer
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.backends.sanitizer_reports import address_findings, memory_findings
from gpu_sandbox.builds.build_cache import BuildFiles, BuildRecord
from gpu_sandbox.builds.compile_pool import Candidate
from gpu_sandbox.devices.device_pool import Judged
from gpu_sandbox.diagnose.sanitizers import findings
from gpu_sandbox.diagnose.tool_run import Body, StillThere
from gpu_sandbox.evaluate.judged_candidate import JudgedCandidate
from gpu_sandbox.evaluate.post_mortem import examined, tools_for
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.static_checks.precheck import inspect_candidate
from gpu_sandbox.supervise.zygote_client import ForkedProcess
from gpu_sandbox.toolchain.stack_traces import printed
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, CPP, HONEST, inline

pytestmark = pytest.mark.anyio

CPU = Device(name="cpu", inside="cpu", visible="")
CUDA = Device(name="cuda:0", inside="cuda:0", visible="0")
MEMORY, RACES = ComputeSanitizer("memcheck"), ComputeSanitizer("racecheck")
BUILD = "0123456789abcdef01234567"
LINES = {f"{BUILD}/cuda.cu": [0, 0, 11, 12], f"{BUILD}/main.cpp": [0, 7]}

MEMCHECK = f"""========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at add_relu_kernel(const float *, int)+0x90 in /h/extensions/{BUILD}/cuda.cu:4
=========     by thread (0,0,0) in block (256,0,0)
=========     Access at 0x7f3b4be00000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f3b4bdff000 of size 4096 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernel in libcuda.so.1
=========
========= Invalid __global__ write of size 4 bytes
=========     at add_relu_kernel(const float *, int)+0x90 in /h/extensions/{BUILD}/cuda.cu:4
=========     by thread (1,0,0) in block (256,0,0)
=========     Access at 0x7f3b4be00004 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f3b4bdff000 of size 4096 bytes
=========
========= Program hit cudaErrorLaunchFailure (error 719) on CUDA API call to cudaFree.
=========
========= ERROR SUMMARY: 3 errors
"""
FOUND = (
    "Invalid __global__ write of size 4 bytes; at add_relu_kernel(const float *, int)+0x90 in "
    "candidate.py:12; Access at 0x… is out of bounds; and is 1 bytes after the nearest "
    "allocation at 0x… of size 4096 bytes (2 times)"
)
ASAN = f"""==2==ERROR: AddressSanitizer: heap-use-after-free on address 0x604 at pc 0x7f
WRITE of size 4 at 0x604 thread T0
    #0 0x7f83 in memcpy ../../src/libsanitizer/asan.cpp:1
    #1 0x7f83 in f(float*) /h/extensions/{BUILD}/main.cpp:2
0x604 is located 8 bytes inside of 40-byte region [0x600,0x628)
allocated by thread T0 here:
    #0 0x7f83 in operator new(unsigned long) ../asan_new_delete.cpp:95
    #1 0x7f83 in f(float*) /h/extensions/{BUILD}/main.cpp:2
SUMMARY: AddressSanitizer: heap-use-after-free /h/main.cpp:2 in f(float*)
"""
NOT_MET = """========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
========= Target application returned an error
========= ERROR SUMMARY: 0 errors
"""


def test_what_sanitizers_print_is_told_at_the_candidates_lines() -> None:
    assert memory_findings(MEMCHECK, LINES)[0] == FOUND
    assert memory_findings(MEMCHECK, {})[0] == FOUND.replace("candidate.py:12", "cuda.cu:4")
    assert address_findings(ASAN, LINES) == [
        "heap-use-after-free: WRITE of size 4 at candidate.py:7 in f(float*), 8 bytes inside a "
        "40-byte region allocated at candidate.py:7"
    ]
    for nothing in ("", "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors", NOT_MET):
        assert memory_findings(nothing, LINES) == address_findings(nothing, LINES) == []


@pytest.mark.alone
@pytest.mark.parametrize("text", ["x" * 64_000, "/a" * 32_000, "========= " + "a/" * 32_000])
def test_a_long_line_takes_no_time(text: str) -> None:
    began = time.monotonic()
    for read in (memory_findings, address_findings):
        assert len(read(text + "\n" * 1000 + text, LINES)) <= 1
    printed(text, stopped=True)
    assert time.monotonic() - began < 1


def test_a_flood_is_cut_and_made_printable() -> None:
    flood = "".join(f"========= \x1b[2J{n} {'x' * 9999}\n=========\n" for n in range(99))
    found = memory_findings(flood, {})
    assert len(found) == 5
    assert all(len(one) <= 400 and one.isprintable() for one in found)


CORRECT = Correct(
    runtime_ms=1, speedup=1, ratio=1, ratio_low=1, ratio_high=1, pairs=1, candidate_ms=1,
    baseline_ms=1,
)  # fmt: skip
ILLEGAL = Crashed(reason="in forward: CUDA error: an illegal memory access was encountered")
ELSEWHERE = Crashed(reason="CUDA error: operation not supported on global/shared address space")


@pytest.mark.parametrize(
    ("outcome", "device", "tools"),
    [
        (Crashed(signal=signal.SIGSEGV), CPU, ("address",)),
        (Crashed(signal=signal.SIGKILL), CPU, ()),
        (Crashed(reason="ValueError"), CPU, ()),
        (ILLEGAL, CUDA, ("memcheck",)),
        (ELSEWHERE, CUDA, ("memcheck",)),
        (Crashed(reason="in forward: RuntimeError: sizes differ"), CUDA, ()),
        (WrongResult(trial=1, reason="(trial 1: random inputs)"), CUDA, ()),
        (WrongResult(trial=3, reason="(trial 3: random inputs)"), CUDA, ("racecheck",)),
        (WrongResult(trial=6, reason="(trial 6: inputs times 64)"), CUDA, ()),
        (WrongResult(), CUDA, ("racecheck",)),
        (WrongResult(), CPU, ()),
        (TimedOut(stage="run", limit_s=1), CUDA, ()),
        (CORRECT, CUDA, ()),
    ],
)
def test_which_outcomes_are_examined(
    outcome: Outcome, device: Device, tools: tuple[str, ...]
) -> None:
    assert names_of(outcome, device, built=True, rechecked=False, suspect=False) == tools


def names_of(outcome: Outcome, device: Device, **asked: Any) -> tuple[str, ...]:
    return tuple(tool.name for tool in tools_for(outcome, backend_of(device).tools, **asked))


def test_what_is_wrong_is_examined_only_where_that_is_wanted() -> None:
    late = WrongResult(trial=3, reason="(trial 3: random inputs)")
    assert names_of(late, CUDA, built=True, rechecked=False, suspect=False, wrong=False) == ()
    assert names_of(ILLEGAL, CUDA, built=True, rechecked=False, suspect=False, wrong=False)


def test_a_suspected_winner_is_examined_too() -> None:
    assert names_of(CORRECT, CPU, built=True, rechecked=True, suspect=True) == ("address",)
    both = ("memcheck", "racecheck")
    assert names_of(CORRECT, CUDA, built=True, rechecked=True, suspect=True) == both


OUT_OF_BOUNDS = inline(CPP.replace("i < a.numel()", "i < a.numel() + (1 << 28)"))


@pytest.mark.process
@pytest.mark.compiles
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_crash_in_cpp_is_explained(make_sandbox: Callable[..., LocalSandbox]) -> None:
    source = OUT_OF_BOUNDS
    async with make_sandbox(Limits(bench_s=0.15, autopsy_s=60.0)) as sandbox:
        verdict = await sandbox.evaluate(
            evaluation(ADD_RELU, source, autopsy_of_wrong=False, autopsy_yields=True)
        )
    assert isinstance(verdict.outcome, Crashed)
    assert verdict.outcome.signal in (signal.SIGSEGV, signal.SIGABRT)
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "z[i] =" in text)
    head, found, *_ = verdict.run_log.splitlines()
    assert head == "AddressSanitizer, in an extra run of the candidate alone:"
    assert found == (
        f"heap-buffer-overflow: READ of size 4 at candidate.py:{line} in "
        "add_relu(at::Tensor, at::Tensor), 0 bytes after a 32768-byte region"
    )
    assert verdict.timings_s["autopsy"] < 60
    assert not any("autopsy" in note for note in verdict.notes)


@pytest.mark.process
@pytest.mark.compiles
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_autopsy_that_takes_too_long_costs_a_note(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    async with make_sandbox(Limits(bench_s=0.15, autopsy_s=0.05)) as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, OUT_OF_BOUNDS))
    assert isinstance(verdict.outcome, Crashed)
    assert "the autopsy (address) was broken off: 0.05 s were over" in verdict.notes


@pytest.mark.process
@pytest.mark.compiles
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_autopsy_gives_way_to_an_evaluation_that_comes_meanwhile(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    verdicts: dict[str, Verdict] = {}
    honest = inline(CPP + f"// {tmp_path}: not built before\n")

    async def judge(name: str, request: EvaluationRequest) -> None:
        verdicts[name] = await sandbox.evaluate(request)

    def reached(stage: str) -> None:
        if "sanitizer" in stage:
            group.start_soon(judge, "honest", evaluation(ADD_RELU, honest))

    limits = Limits(bench_s=0.15, autopsy_s=600.0)
    async with (
        make_sandbox(limits, compile_jobs=1) as sandbox,
        anyio.create_task_group() as group,
    ):
        with told_to(reached):
            await judge("crashed", evaluation(ADD_RELU, OUT_OF_BOUNDS, autopsy_yields=True))
    crashed = verdicts["crashed"]
    assert isinstance(crashed.outcome, Crashed)
    assert [note for note in crashed.notes if "autopsy" in note] == [
        "the autopsy (address) was broken off: others waited for the compilers"
    ]
    assert isinstance(verdicts["honest"].outcome, Correct)


FAKE = """#!/bin/sh
while [ "$1" != --tool ]; do shift; done
[ "$2" = memcheck ] || exit 0
id -u; env
cat "$(dirname "$0")/told"
"""


@pytest.fixture
def fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of compute-sanitizer."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "compute-sanitizer").write_text(FAKE)
    (tools / "compute-sanitizer").chmod(0o755)
    (tools / "told").write_text(MEMCHECK)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return tools / "compute-sanitizer"


@pytest.mark.process
@pytest.mark.usefixtures("fake_tool")
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_compute_sanitizer_is_started_confined_and_heard(
    make_sandbox: Callable[..., LocalSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = Body(
        task_source=ADD_RELU,
        candidate_source=HONEST,
        device=CUDA,
        files=BuildFiles([], [], BuildRecord(lines=LINES)),
        cores=(),
    )
    async with make_sandbox(Limits(autopsy_s=20.0)) as sandbox:
        await sandbox.survey()
        run = sandbox._open.extra_run
        found = await findings(run, body, MEMORY, 20.0)
        assert found.lines[:2] == ["memcheck, in an extra run of the candidate alone:", FOUND]
        assert found.cut is None
        assert (await findings(run, body, RACES, 20.0)).lines == []
        broken_off = await findings(run, body, MEMORY, 20.0, lambda: True)
        assert broken_off.cut == "others"
        gone = ForkedProcess.gone
        monkeypatch.setattr(
            ForkedProcess, "gone", lambda self, *how, **_: gone(self, *how, stuck=True)
        )
        with pytest.raises(StillThere):
            await findings(run, body, MEMORY, 20.0)


@pytest.mark.process
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_on_a_gpu_an_autopsy_gives_way_to_who_waits_for_the_device(
    make_sandbox: Callable[..., LocalSandbox], fake_tool: Path
) -> None:
    request = evaluation(ADD_RELU, HONEST, device="cuda:0", autopsy_yields=True)
    inspected = inspect_candidate(HONEST)
    candidate = Candidate(
        source=HONEST, task_source=ADD_RELU, device=CUDA, facts={}, inspected=inspected
    )
    judged = Judged(CUDA, "cuda:0", [], [], queue_s=0.0, lease_s=0.0)
    files = BuildFiles([], [], BuildRecord(lines=LINES))

    async def autopsy(notes: list[str]) -> list[str] | None:
        case = JudgedCandidate(
            opened=sandbox._open,
            limits=Limits(autopsy_s=600.0),
            request=request,
            candidate=candidate,
            files=files,
            judged=judged,
            notes=notes,
        )
        return await examined(case, ILLEGAL, None)

    async def comes() -> None:
        async with leases.hold("cuda:0"):
            pass

    async with (
        make_sandbox(devices=("cuda:0",)) as sandbox,
        anyio.create_task_group() as group,
    ):
        await sandbox.survey()
        leases = sandbox._open.devices.leases
        undisturbed: list[str] = []
        found = await autopsy(undisturbed)
        assert (found or [])[1:2] == [FOUND]
        assert undisturbed == []

        await anyio.Path(fake_tool).write_text(FAKE + "exec sleep 600\n")
        disturbed: list[str] = []
        with told_to(lambda _: group.start_soon(comes)):
            await autopsy(disturbed)
        assert disturbed == ["the autopsy (memcheck) was broken off: others waited for the device"]

        await comes()  # after the one who waited
        leases.waiting = 1
        skipped: list[str] = []
        assert await autopsy(skipped) is None
        assert skipped == ["no autopsy: others waited for the device"]
        leases.waiting = 0


@pytest.mark.process
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_where_nobody_may_connect_nvidias_tools_are_left_alone(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    async with make_sandbox(without_layers=("namespaces:mount",)) as sandbox:
        assert not await sandbox._open.extra_run.can_meet()
