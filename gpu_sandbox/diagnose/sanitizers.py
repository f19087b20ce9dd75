"""Why a candidate crashed: one extra run of it alone (``tool_run.py``), in a sanitizer.

AddressSanitizer for C++ on the CPU, with its extensions built anew for it; NVIDIA's
compute-sanitizer on a GPU, with the build that was judged. What it prints is text for
whoever repairs the candidate.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

import anyio.to_thread
import msgspec

from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.diagnose.sanitizer_reports import address_findings, memory_findings
from gpu_sandbox.diagnose.tool_run import Body, Cut, ExtraRun, ToolCommand
from gpu_sandbox.toolchain.environment import tool_environment
from gpu_sandbox.toolchain.prerequisites import cuda_home

__all__ = ["Findings", "Tool", "address_runtime", "compute_sanitizer", "findings"]

Tool = Literal["address", "memcheck", "racecheck"]

_NAMES = {"address": "AddressSanitizer", "memcheck": "memcheck", "racecheck": "racecheck"}
_ASAN_OPTIONS = (
    "detect_leaks=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:detect_container_overflow=0"
    ":allocator_may_return_null=1:malloc_context_size=8:quarantine_size_mb=32:exitcode=97"
)


class Findings(msgspec.Struct, frozen=True):
    """A head and a line each, or nothing; ``cut`` says why there may be more."""

    lines: list[str] = []
    cut: Cut | None = None


async def findings(
    run: ExtraRun,
    body: Body,
    tool: Tool,
    limit_s: float,
    others_wait: Callable[[], bool] | None = None,
) -> Findings:
    """Nothing also where the tool is missing, or can't be run. Raises ``StillThere`` only."""
    command = await anyio.to_thread.run_sync(_command, tool)
    if command is None or limit_s <= 0:
        return Findings()
    try:
        printed = await run.output(body, command, limit_s, others_wait)
    except SandboxFault:
        return Findings()
    read = address_findings if tool == "address" else memory_findings
    lines = read(printed.text, body.files.record.lines)
    head = [f"{_NAMES[tool]}, in an extra run of the candidate alone:"] if lines else []
    return Findings([*head, *lines], printed.cut)


def _command(tool: Tool) -> ToolCommand | None:
    """None where the tool is not installed."""
    if tool == "address":
        preload = address_runtime(os.environ.get("CXX") or "c++")
        if preload is None:
            return None
        variables = {"ASAN_OPTIONS": _ASAN_OPTIONS, "GPU_SANDBOX_SANITIZE": "address"}
        return ToolCommand([], {"LD_PRELOAD": preload, **variables}, anew=True)
    found = compute_sanitizer()
    if found is None:
        return None
    words = [found, "--tool", tool, "--show-backtrace", "no", "--strip-paths", "no"]
    words += ["--print-limit", "100", "--target-processes", "all"]
    # Torch's allocator hands out pieces of large blocks, whose ends nobody would see.
    alone = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_LAUNCH_BLOCKING": "1"}
    return ToolCommand(words, alone, (str(Path(found).resolve().parent),))


def compute_sanitizer() -> str | None:
    """On the path, or in the CUDA toolkit."""
    home = cuda_home()
    found = shutil.which("compute-sanitizer")
    return found or (shutil.which(home / "bin" / "compute-sanitizer") if home else None)


@cache
def address_runtime(compiler: str) -> str | None:
    """What an extension built for AddressSanitizer needs; None where there is none.

    The libraries to load first: ASan's, and that of C++ whose functions it wraps."""
    paths = []
    for name in ("libasan.so", "libstdc++.so.6"):
        try:
            told = subprocess.run(
                [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False,
                env=tool_environment(),
            )  # fmt: skip
        except OSError:
            return None
        if not os.path.isabs(told.stdout.strip()):
            return None
        paths.append(os.path.realpath(told.stdout.strip()))
    return " ".join(paths)
