"""The compile stage: build a candidate's extensions in a child, in parallel, off the lease.

The child sees no device. What it built is kept under a key of source and toolchain, so
that the same source never compiles twice; a candidate that has nothing to build skips
the stage, and its import is left to the worker.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import msgspec

from events.outcomes import CompileFailed, Crashed, Outcome, TimedOut
from gpu_sandbox.builds import BuildCache
from gpu_sandbox.devices import Device, torch_identity
from gpu_sandbox.frames import BadFrame, PeerGone, read_frame
from gpu_sandbox.guard import Inspected
from gpu_sandbox.limits import Limits
from gpu_sandbox.messages import Built
from gpu_sandbox.prerequisites import cuda_home, require_compiler
from gpu_sandbox.process import Child, Spec, child, child_environment
from gpu_sandbox.workdir import RunDirectory

__all__ = ["CompilePool", "Compiled"]

HEADERS = Path(__file__).parent / "headers"
_NICE_BESIDE_CPU_TIMING = 19


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """``outcome`` ends the evaluation; otherwise ``extensions`` holds what was built."""

    outcome: Outcome | None = None
    extensions: Path
    log: str = ""
    seconds: float = 0.0
    queue_s: float = 0.0
    notes: list[str] = []


class CompilePool:
    """At most ``jobs`` compile children at a time, served in order of arrival."""

    def __init__(self, builds: Path, limits: Limits, jobs: int) -> None:
        self._builds = BuildCache(builds)
        self._limits = limits
        self._jobs = jobs
        self._places: anyio.CapacityLimiter | None = None
        self.running = 0

    async def build(
        self,
        run: RunDirectory,
        source: str,
        task: Path,
        candidate: Path,
        device: Device,
        facts: dict[str, Any],
        inspected: Inspected,
        extra: dict[str, str],
    ) -> Compiled:
        """Raises ``PrerequisiteMissing`` where there is something to build and nothing to
        build it with."""
        extensions = run.path / "worker" / "extensions"
        extensions.mkdir(parents=True, exist_ok=True)
        if not inspected.builds:
            return Compiled(extensions=extensions)
        began = time.monotonic()
        key = self._key(source, device, facts, inspected)
        if await anyio.to_thread.run_sync(self._builds.fetch, key, extensions):
            spent = time.monotonic() - began
            return Compiled(
                extensions=extensions, seconds=spent, notes=["compiled before: build reused"]
            )
        require_compiler(cuda=device.is_cuda)
        self._places = self._places or anyio.CapacityLimiter(self._jobs)
        async with self._places:
            queued = time.monotonic() - began
            self.running += 1
            try:
                compiled = await self._compile(
                    run, task, candidate, device, facts, inspected, extensions, extra
                )
            finally:
                self.running -= 1
        if compiled.outcome is None:
            await anyio.to_thread.run_sync(self._builds.store, key, extensions)
        spent = time.monotonic() - began - queued
        return msgspec.structs.replace(compiled, seconds=spent, queue_s=queued)

    def _key(self, source: str, device: Device, facts: dict[str, Any], inspected: Inspected) -> str:
        arch = str(facts.get("compute_capability") or facts.get("isa"))
        late = str(inspected.builds_late)
        return BuildCache.key(source, torch_identity(), _toolchain(device.is_cuda), arch, late)

    async def _compile(
        self,
        run: RunDirectory,
        task: Path,
        candidate: Path,
        device: Device,
        facts: dict[str, Any],
        inspected: Inspected,
        extensions: Path,
        extra: dict[str, str],
    ) -> Compiled:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        home = run.home("compile")
        environment = child_environment(
            home, **_compile_variables(device, facts, extensions, self._jobs), **extra
        )
        spec = Spec(
            role="compiler",
            arguments={
                "control": theirs.fileno(),
                "task": str(task),
                "candidate": str(candidate),
                "pretend": facts if device.is_cuda else None,
                "late": inspected.builds_late,
            },
            directory=home,
            environment=environment,
            token=run.token,
            limits=self._limits,
            trusted=False,
            address_space=not device.is_cuda,
            niceness=0 if device.is_cuda else _NICE_BESIDE_CPU_TIMING,
        )
        with ours:
            async with child(spec, theirs.fileno()) as running:
                theirs.close()
                built, late = await self._answers(ours)
                died = built is None and not late
                if died:
                    await running.exited_within(1.0)
                await running.end(politely=not died)
        return _compiled(built, late, running, extensions, self._limits.compile_s)

    async def _answers(self, control: socket.socket) -> tuple[Built | None, bool]:
        """The child's last word, and whether its time ran out before it had finished.

        It reports after the import, and again after trying to construct the model: a
        death or a hang in that second part loses nothing that was found.
        """
        decoder = msgspec.msgpack.Decoder(Built)
        last: Built | None = None
        with anyio.move_on_after(self._limits.compile_s) as scope:
            try:
                while True:
                    last = await read_frame(control, decoder)
            except (PeerGone, BadFrame):
                pass
        return last, scope.cancelled_caught


def _compiled(
    built: Built | None, late: bool, running: Child, extensions: Path, limit_s: float
) -> Compiled:
    outcome: Outcome | None = None
    if built is None:
        if late:
            reason = f"not compiled within {limit_s:g} s"
            outcome = TimedOut(reason=reason, stage="compile", limit_s=limit_s)
        else:
            how = f"signal {running.signal}" if running.signal else f"exit {running.returncode}"
            outcome = Crashed(reason=f"its process died on import ({how})", signal=running.signal)
        return Compiled(outcome=outcome, extensions=extensions, log=running.output())
    notes = []
    if built.failure:
        outcome = CompileFailed(reason=built.failure)
    if built.full_header:
        notes.append(f"{built.full_header} extensions needed the full torch headers")
    printed = running.output().strip()
    log = "\n".join(part for part in (built.log, printed) if part)
    return Compiled(outcome=outcome, extensions=extensions, log=log, notes=notes)


def _compile_variables(
    device: Device, facts: dict[str, Any], extensions: Path, jobs: int
) -> dict[str, str]:
    variables = {
        "GPU_SANDBOX_EXTENSIONS": str(extensions),
        "CUDA_VISIBLE_DEVICES": "",
        "MAX_JOBS": str(max(2, (os.cpu_count() or 2) // jobs)),
        "OMP_NUM_THREADS": "1",
    }
    home = cuda_home()
    if device.is_cuda and home is not None:
        variables["CUDA_HOME"] = str(home)
        variables["TORCH_CUDA_ARCH_LIST"] = _arch(str(facts["compute_capability"]))
    return variables


def _arch(capability: str) -> str:
    """Architecture-specific instructions (wgmma, tma) need the ``a`` from 9.0 on."""
    return f"{capability}a" if int(capability.split(".")[0]) >= 9 else capability


@cache
def _toolchain(cuda: bool) -> str:
    """Versions of the compilers and of our headers."""
    told = [_version([os.environ.get("CXX") or "c++", "--version"])]
    home = cuda_home()
    if cuda and home is not None:
        told.append(_version([str(home / "bin" / "nvcc"), "--version"]))
    digest = hashlib.sha256()
    for path in sorted(HEADERS.rglob("*.h")):
        digest.update(path.read_bytes())
    return "\n".join([*told, digest.hexdigest()])


def _version(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return "none"
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
