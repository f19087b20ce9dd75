"""Whether this machine can evaluate candidates, as data: ``engine doctor`` prints it.

Every check says what was seen and, when it fails, what to do. ``needed`` checks decide
whether anything can be evaluated at all; the others name what is merely absent.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import msgspec

from events.outcomes import Correct
from gpu_sandbox.devices import torch_identity
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import EvaluationRequest, PrerequisiteMissing, SandboxFault
from gpu_sandbox.prerequisites import cuda_home, require_compiler
from gpu_sandbox.sandbox import LocalSandbox

__all__ = ["Check", "examine"]

_TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(64, 64)]

def get_init_inputs():
    return []
"""
_CPP = "#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n"
_CUDA = "__global__ void k(float* x) { x[0] = 1; }\n"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ok: bool
    needed: bool
    detail: str
    """What was seen: a version, or how it failed. One line."""
    fix: str = ""
    """What to do about it; empty when nothing is wrong or nothing can be done."""


async def examine(devices: Sequence[str] = ("cpu",), *, cache: Path | None = None) -> list[Check]:
    """All checks, each device with a real evaluation. Takes some seconds a device."""
    looks: list[Callable[[], Check]] = [
        _torch,
        _compiler,
        _cpp_compiles,
        _cuda_toolkit,
        _user_namespaces,
        _landlock,
        _seccomp,
        _cgroup,
    ]
    checks = [await anyio.to_thread.run_sync(look) for look in looks]
    for device in devices:
        checks += await _device(device, cache)
    return checks


async def _device(device: str, cache: Path | None) -> list[Check]:
    name = f"device {device}"
    try:
        sandbox = LocalSandbox((device,), limits=Limits(bench_s=0.2), cache=cache)
        facts = await sandbox.fingerprint(device)
        request = EvaluationRequest(
            task_name="doctor",
            task_source=_TASK,
            candidate_source=_TASK.replace("class Model(", "class ModelNew("),
            device=device,
            protocol="strict",
            seed=0,
        )
        verdict = await sandbox.evaluate(request)
    except PrerequisiteMissing as missing:
        return [Check(name=name, ok=False, needed=True, detail=str(missing), fix=str(missing))]
    except SandboxFault as fault:
        line = (str(fault).splitlines() or ["the sandbox failed"])[0]
        return [Check(name=name, ok=False, needed=True, detail=line)]
    good = isinstance(verdict.outcome, Correct)
    seen = str(facts["name"]) if good else f"{facts['name']}: {verdict.outcome}"
    return [Check(name=name, ok=good, needed=True, detail=f"{seen}, evaluated a candidate")]


def _torch() -> Check:
    try:
        lines = torch_identity().splitlines()
    except PrerequisiteMissing as missing:
        return Check(name="torch", ok=False, needed=True, detail="absent", fix=str(missing))
    versions = {
        key.split(":")[0].strip(): value.strip().strip("'")
        for key, _, value in (line.partition("=") for line in lines)
        if value
    }
    detail = f"{versions.get('__version__', '?')}, CUDA {versions.get('cuda', '?')}"
    return Check(name="torch", ok=True, needed=True, detail=detail)


def _compiler() -> Check:
    name = "C++ compiler, Python headers, ninja"
    try:
        require_compiler(cuda=False)
    except PrerequisiteMissing as missing:
        return Check(name=name, ok=False, needed=False, detail="incomplete", fix=str(missing))
    return Check(name=name, ok=True, needed=False, detail="present")


def _cpp_compiles() -> Check:
    compiler = os.environ.get("CXX") or "c++"
    return _compiles("C++ compiles", [compiler, "-x", "c++"], _CPP, "apt install g++")


def _cuda_toolkit() -> Check:
    home = cuda_home()
    name = "CUDA toolkit"
    fix = "install the CUDA toolkit, or set CUDA_HOME to its place (CUDA candidates only)"
    if home is None:
        return Check(name=name, ok=False, needed=False, detail="no nvcc", fix=fix)
    return _compiles(name, [str(home / "bin" / "nvcc"), "-x", "cu"], _CUDA, fix)


def _compiles(name: str, command: list[str], source: str, fix: str) -> Check:
    if shutil.which(command[0]) is None:
        return Check(name=name, ok=False, needed=False, detail=f"no {command[0]}", fix=fix)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "probe"
        path.write_text(source)
        words = [*command, "-c", str(path), "-o", f"{path}.o"]
        run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode:
        said = (run.stderr.splitlines() or ["it failed"])[0]
        return Check(name=name, ok=False, needed=False, detail=said, fix=fix)
    version = subprocess.run(
        [command[0], "--version"], capture_output=True, text=True, check=False
    ).stdout
    lines = [line for line in version.splitlines() if any(c.isdigit() for c in line)]
    detail = next((line for line in lines if "release" in line), (lines or ["works"])[0])
    return Check(name=name, ok=True, needed=False, detail=detail.strip())


# --- isolation layers: what the machine could give, not yet what is used


def _user_namespaces() -> Check:
    """Tried in a child: unsharing here would change this process."""
    script = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x20000) != 0)"
    run = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, check=False)
    allowed = run.returncode == 0
    return Check(
        name="user and mount namespaces",
        ok=allowed,
        needed=False,
        detail="allowed" if allowed else "refused by the kernel or its configuration",
        fix="" if allowed else "sysctl kernel.unprivileged_userns_clone=1 (or an AppArmor profile)",
    )


def _landlock() -> Check:
    """``landlock_create_ruleset(NULL, 0, VERSION)`` answers with the ABI."""
    version = ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)
    ok = version > 0
    detail = f"ABI {version}" if ok else os.strerror(ctypes.get_errno())
    return Check(
        name="landlock",
        ok=ok,
        needed=False,
        detail=detail,
        fix="" if ok else "a kernel ≥ 5.13 with lsm=landlock",
    )


def _seccomp() -> Check:
    status = Path("/proc/self/status").read_text()
    ok = "Seccomp:" in status
    return Check(
        name="seccomp", ok=ok, needed=False, detail="in the kernel" if ok else "not in the kernel"
    )


def _cgroup() -> Check:
    root = Path("/sys/fs/cgroup")
    unified = (root / "cgroup.controllers").is_file()
    ok = unified and os.access(root / "cgroup.procs", os.W_OK)
    detail = "v2, writable" if ok else "v2, not writable" if unified else "no v2 hierarchy"
    return Check(name="cgroups", ok=ok, needed=False, detail=detail)
