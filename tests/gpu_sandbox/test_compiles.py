"""Candidates with C++ extensions, through real compilers."""

from __future__ import annotations

import os
import shutil
import signal
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from events.outcomes import CompileFailed, Correct, Crashed, KernelResources, TimedOut
from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, CPP, candidate, inline
from tests.processes import processes_with

REUSED = "compiled before: build reused"

pytestmark = [pytest.mark.anyio, pytest.mark.compiles]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.process
async def test_an_extension_is_built_once_and_reused(
    shared_sandbox: LocalSandbox, make_sandbox: Callable[..., LocalSandbox], sandbox_cache: Path
) -> None:
    source = inline(f"// {time.time_ns()}: never built before\n{CPP}", late=True)
    first = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(first.outcome, Correct), (first.outcome, first.compile_log)
    assert REUSED not in first.notes
    assert not list((sandbox_cache / "builds").rglob("*.o"))

    async with make_sandbox() as another:
        again = await another.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(again.outcome, Correct)
    assert again.timings_s["compile"] < first.timings_s["compile"]
    assert REUSED in again.notes


async def test_a_compiler_error_names_the_candidates_line(shared_sandbox: LocalSandbox) -> None:
    source = inline(CPP.replace("return out;", "return outt;"))
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, CompileFailed)
    line = source.splitlines().index("  return outt;") + 1
    assert f"candidate.py:{line}:10: error: ‘outt’ was not declared" in verdict.outcome.reason
    assert f"{line:5} |   return outt;" in verdict.compile_log
    assert "return outt;" in verdict.compile_log
    assert "ninja" not in verdict.compile_log
    assert "check" not in verdict.timings_s


async def test_a_failed_build_under_the_lease_reads_the_same(shared_sandbox: LocalSandbox) -> None:
    source = inline(CPP.replace("return out;", "return outt;"), late=True)
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, CompileFailed)
    assert verdict.outcome.reason.startswith("extension 'add_relu' did not build: candidate.py:")
    assert "FAILED" not in verdict.compile_log + verdict.run_log


FORGED = """
import contextlib
import os
import socket
import stat
import struct
import sys

import msgspec
import torch
import torch.nn as nn
from torch.utils import cpp_extension

KERNELS = [{"kernel": "huge", "registers": 2**64 - 1}]
KERNELS += [{"kernel": "owed", "registers": 8, "spill_load_bytes": -1}]
KERNELS += [{"kernel": "likely", "registers": 255, "stack_bytes": 1 << 20}]
frame = sys._getframe()
while frame is not None and not frame.f_code.co_filename.endswith("/compiler/main.py"):
    frame = frame.f_back
if frame is not None:
    lines = {f"{number}/main.cpp": [] for number in range(100_000)}
    body = msgspec.msgpack.encode({"type": "Built", "resources": KERNELS, "lines": lines})
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                socket.socket(fileno=number).sendall(struct.pack("!I", len(body)) + body)
    os._exit(0)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.relu(a + b)
"""


async def test_what_no_kernel_can_take_is_not_believed(
    shared_sandbox: LocalSandbox, sandbox_cache: Path
) -> None:
    """Nor that it has a hundred thousand files."""
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, FORGED))
    assert isinstance(verdict.outcome, Correct), verdict.outcome
    likely = KernelResources(kernel="likely", registers=255, stack_bytes=1 << 20)
    assert verdict.resources == [likely]
    records = list((sandbox_cache / "builds").glob("*/record.json"))
    assert records
    assert all(path.stat().st_size < 100_000 for path in records)


async def test_an_undefined_symbol_is_told_by_its_plain_name(shared_sandbox: LocalSandbox) -> None:
    declared = "torch::Tensor help(torch::Tensor a);\ntorch::Tensor add_relu("
    cpp = CPP.replace("torch::Tensor add_relu(", declared)
    source = inline(cpp.replace("return out;", "return help(out);"))
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, CompileFailed)
    told = "ImportError: add_relu.so: undefined symbol: help(at::Tensor)"
    assert verdict.outcome.reason == told
    assert "/tmp/" not in verdict.compile_log


@pytest.mark.slow
async def test_what_the_slim_headers_lack_builds_with_the_real_ones(
    shared_sandbox: LocalSandbox,
) -> None:
    """``globalContext`` is in ATen/Context.h but not in its slim stand-in."""
    cpp = f"""// {time.time_ns()}: never built before
#include <c10/macros/Macros.h>
#include <ATen/Context.h>
extern "C" long size(long n) {{ return n + 0 * at::globalContext().deterministicAlgorithms(); }}
"""
    source = candidate(
        "return torch.relu(a + b) + (LIB.size(3) - 3)",
        before=(
            "import ctypes\nfrom torch.utils.cpp_extension import load_inline\n"
            f'LIB = ctypes.CDLL(load_inline("sizes", """{cpp}""", is_python_module=False,\n'
            "                              no_implicit_headers=True))"
        ),
    )
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.compile_log)
    assert "1 extensions needed the full torch headers" in verdict.notes


NUMBERS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return [
            x + 1, torch.tensor(3.0), torch.tensor(3), torch.tensor(True), torch.tensor([1, 2]),
            torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
            torch.tensor([1.0, 2.0]), torch.tensor(3.0, dtype=torch.half),
            torch.tensor([1.0, 2.0], dtype=torch.double),
        ]


def get_inputs():
    return [torch.randn(64)]
"""
NUMBERS_CPP = """// {mark}
#include <torch/extension.h>

std::vector<torch::Tensor> numbers(torch::Tensor x) {{
  return {{
      x + 1, torch::tensor(3.0), torch::tensor(3), torch::tensor(true), torch::tensor({{1, 2}}),
      torch::tensor({{1.0, 2.0}}), torch::tensor({{{{1.0, 2.0}}, {{3.0, 4.0}}}}),
      torch::tensor(std::vector<double>{{1.0, 2.0}}), torch::tensor(3.0, torch::kHalf),
      at::tensor({{1.0, 2.0}}),
  }};
}}
"""


@pytest.mark.slow
async def test_a_tensor_of_numbers_is_what_torchs_own_headers_make_of_it(
    shared_sandbox: LocalSandbox,
) -> None:
    """``torch::tensor`` is another function than ``at::tensor``, which the slim headers had."""
    source = f"""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = '''{NUMBERS_CPP.format(mark=time.time_ns())}'''
BUILT = load_inline("numbers", CPP, functions=["numbers"])


class ModelNew(nn.Module):
    def forward(self, x):
        return BUILT.numbers(x)
"""
    verdict = await shared_sandbox.evaluate(evaluation(NUMBERS, source))
    assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.compile_log)
    assert not any("full torch headers" in note for note in verdict.notes)


@pytest.mark.process
async def test_a_compile_that_takes_too_long_is_cut_off(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    source = "import time; time.sleep(60)\n" + inline(CPP)
    async with make_sandbox(Limits(compile_s=3.0)) as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, TimedOut)
    assert (verdict.outcome.stage, verdict.outcome.limit_s) == ("compile", 3.0)


async def test_a_compile_child_that_dies_is_a_crash(shared_sandbox: LocalSandbox) -> None:
    before = "import os, ctypes\nos.kill(os.getpid(), 11)"
    verdict = await shared_sandbox.evaluate(
        evaluation(ADD_RELU, candidate("return a", before=before))
    )
    assert isinstance(verdict.outcome, Crashed)
    assert verdict.outcome.signal == 11


def _of(temp: Path, mark: str) -> set[int]:
    """Not those of other engines."""
    return {*processes_with(mark)} & {*processes_with(str(temp))}


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.slow
@pytest.mark.process
async def test_a_compile_whose_keeper_dies_is_done_again(
    sandbox: LocalSandbox, tmp_path: Path
) -> None:
    """The zygote, here: nothing that the candidate did."""
    started = tmp_path / "started"
    source = inline(f"// {time.time_ns()}: never built before\n{CPP}")
    async with anyio.create_task_group() as group:

        async def kill_the_zygote() -> None:
            while not _of(tmp_path, "cc1plus"):  # noqa: ASYNC110 (nobody tells)
                await anyio.sleep(0.01)
            for pid in _of(tmp_path, '"gpu_sandbox.zygote.main"'):
                if _parent(pid) == os.getpid():  # and not one of its forks
                    os.kill(pid, signal.SIGKILL)
                    started.touch()

        group.start_soon(kill_the_zygote)
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, source))
    assert started.exists()
    assert isinstance(verdict.outcome, Correct), verdict.outcome


async def test_a_missing_compiler_is_a_missing_prerequisite(
    shared_sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = evaluation(ADD_RELU, inline(CPP.replace("sizes differ", "never built")))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(PrerequisiteMissing, match=r"apt install g\+\+"):
        await shared_sandbox.evaluate(request)
    monkeypatch.undo()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nonexistent")
    with pytest.raises(PrerequisiteMissing, match=r"apt install python3\.\d+-dev"):
        await shared_sandbox.evaluate(request)
