"""Why a candidate crashed: one extra run of it alone, in a sanitizer.

AddressSanitizer for C++ on the CPU, with its extensions built anew for it; NVIDIA's
compute-sanitizer on a GPU, with the build that was judged. The run is confined like any
other, has its own time limit, and is never what a verdict depends on: what it prints is
text for whoever repairs the candidate.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import msgspec

from events import outcomes
from gpu_sandbox.builds import BuildFiles
from gpu_sandbox.confinement import policy_for
from gpu_sandbox.devices import Device
from gpu_sandbox.findings import address_findings, memory_findings
from gpu_sandbox.frames import Line, PeerGone
from gpu_sandbox.hub import hub_readable, hub_variables
from gpu_sandbox.jobs import Built, Examine
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import SandboxFault
from gpu_sandbox.prerequisites import cuda_home
from gpu_sandbox.process import child_environment
from gpu_sandbox.workdir import RunDirectory, remove
from gpu_sandbox.zygote import Zygote

__all__ = ["Autopsy", "Body", "StillThere", "Tool"]

Tool = Literal["address", "memcheck", "racecheck"]

_EVENTS = str(Path(outcomes.__file__).parent)
"""A fresh interpreter imports it anew, where other children were forked with it."""
_NAMES = {"address": "AddressSanitizer", "memcheck": "memcheck", "racecheck": "racecheck"}
_ASAN_OPTIONS = (
    "detect_leaks=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:detect_container_overflow=0"
    ":allocator_may_return_null=1:malloc_context_size=8:quarantine_size_mb=32:exitcode=97"
)


class StillThere(Exception):
    """On a GPU: a process of it was killed, and the kernel does not let go of it."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a candidate. ``files`` are the build's, and stay the caller's."""

    task_source: str
    candidate_source: str
    device: Device
    files: BuildFiles
    cores: tuple[int, ...]
    prebuilt: Path | None = None


class Autopsy:
    """Examines one candidate at a time for each caller; keeps nothing between."""

    def __init__(self, zygote: Zygote, run: RunDirectory, limits: Limits) -> None:
        self._zygote = zygote
        self._run = run
        self._limits = limits
        self._homes = 0

    async def findings(self, body: Body, tool: Tool) -> list[str]:
        """A head and a line each, or nothing: also where the tool is missing, finds nothing
        in ``limits.autopsy_s`` seconds, or can't be run. Raises ``StillThere`` only."""
        command = await anyio.to_thread.run_sync(_command, tool)
        if command is None or self._limits.autopsy_s <= 0:
            return []
        try:
            output = await self._output(body, tool, command)
        except SandboxFault:
            return []
        read = address_findings if tool == "address" else memory_findings
        found = read(output, body.files.record.lines)
        return [f"{_NAMES[tool]}, in an extra run of the candidate alone:", *found] if found else []

    async def _output(self, body: Body, tool: Tool, command: _Command) -> str:
        self._homes += 1
        home = self._run.home(f"autopsy-{self._homes}")
        policy = policy_for(
            self._limits,
            home,
            body.cores,
            body.device.nodes(),
            readable=(*hub_readable(), _EVENTS, *command.readable, *_places(body.prebuilt)),
        )
        # Shadow memory takes terabytes of addresses, as CUDA does.
        policy = msgspec.structs.replace(policy, address_space=False)
        variables = {**hub_variables(), "CUDA_VISIBLE_DEVICES": body.device.visible}
        if body.prebuilt is not None:
            variables["GPU_SANDBOX_PREBUILT"] = str(body.prebuilt)
        order = Examine(
            task=body.task_source,
            candidate=body.candidate_source,
            device=body.device.inside,
            tool=command.words,
            environment=command.environment,
            libraries=[] if tool == "address" else body.files.names,
        )
        fds = [] if tool == "address" else body.files.fds
        ours, theirs = socket.socketpair()
        line: Line[Built] = Line(ours, Built)
        try:
            with theirs:
                ward = await self._zygote.spawn(
                    "autopsy",
                    {},
                    {"control": theirs},
                    environment=child_environment(home, **variables),
                    directory=home,
                    policy=policy,
                )
            try:
                with anyio.move_on_after(self._limits.autopsy_s):
                    await line.send(order, *fds)
                    await ward.ended.wait()
            except PeerGone:
                pass
            finally:
                await ward.end()
            if ward.stuck and body.device.is_cuda:
                raise StillThere
            return ward.output()
        finally:
            line.close()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove, home)


class _Command(msgspec.Struct, frozen=True):
    """What goes before the interpreter, into its environment, and what it needs to read."""

    words: list[str]
    environment: dict[str, str]
    readable: tuple[str, ...] = ()


def _places(prebuilt: Path | None) -> tuple[str, ...]:
    return () if prebuilt is None else (str(prebuilt),)


def _command(tool: Tool) -> _Command | None:
    """None where the tool is not installed."""
    if tool == "address":
        preload = _runtime(os.environ.get("CXX") or "c++")
        if preload is None:
            return None
        variables = {"ASAN_OPTIONS": _ASAN_OPTIONS, "GPU_SANDBOX_SANITIZE": "address"}
        return _Command([], {"LD_PRELOAD": preload, **variables})
    home = cuda_home()
    found = shutil.which("compute-sanitizer")
    if found is None and home is not None:
        found = shutil.which(home / "bin" / "compute-sanitizer")
    if found is None:
        return None
    words = [found, "--tool", tool, "--show-backtrace", "no", "--strip-paths", "no"]
    words += ["--print-limit", "100", "--target-processes", "all"]
    # Torch's allocator hands out pieces of large blocks, whose ends nobody would see.
    alone = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_LAUNCH_BLOCKING": "1"}
    return _Command(words, alone, (str(Path(found).resolve().parent),))


@cache
def _runtime(compiler: str) -> str | None:
    """The libraries to load first: ASan's, and that of C++ whose functions it wraps."""
    paths = []
    for name in ("libasan.so", "libstdc++.so.6"):
        try:
            told = subprocess.run(
                [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False
            )
        except OSError:
            return None
        if not os.path.isabs(told.stdout.strip()):
            return None
        paths.append(os.path.realpath(told.stdout.strip()))
    return " ".join(paths)
