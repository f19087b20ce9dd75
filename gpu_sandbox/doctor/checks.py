"""Whether this machine can evaluate candidates, as data: ``engine doctor`` prints it.

Every check says what was seen and, when it fails, what to do. ``needed`` checks decide
whether anything can be evaluated at all; the others name what is merely absent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest, PrerequisiteMissing, SandboxFault, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.builds.build_cache import CACHE_BYTES, BuildCache
from gpu_sandbox.confine import Survey
from gpu_sandbox.confine.policy import may_connect
from gpu_sandbox.diagnose.ncu_counters import refusal
from gpu_sandbox.doctor.cache_contents import HoldingKind, holding
from gpu_sandbox.doctor.check import Check
from gpu_sandbox.doctor.optional_tools import OPTIONAL
from gpu_sandbox.sandbox import LocalSandbox, default_cache
from gpu_sandbox.store.file_cache import KeptFiles
from gpu_sandbox.toolchain.environment import tool_environment
from gpu_sandbox.toolchain.identity import torch_identity
from gpu_sandbox.toolchain.prerequisites import cuda_home, require_cpp

__all__ = ["Check", "examine", "isolation_checks"]

# On a GPU a call must be long enough that a gate can tell it from none.
_TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x @ x

def get_inputs():
    return [torch.rand(512, 512)]

def get_init_inputs():
    return []
"""
_CPP = "#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n"
_TOO_WEAK = "candidates are refused here: mend what is absent above, or give --allow-weak-isolation"
_TOOLS_APART = Check(
    name="NVIDIA's tools",
    ok=False,
    needed=False,
    detail="compute-sanitizer and Nsight Compute don't work without a mount namespace: crashes of"
    " CUDA candidates come without their place, and there are no counters",
    fix="as for the mount namespace (CUDA candidates only)",
)
_CUDA = "__global__ void k(float* x) { x[0] = 1; }\n"


async def examine(
    devices: Sequence[str] = ("cpu",),
    *,
    cache: Path | None = None,
    cache_bytes: int = CACHE_BYTES,
    steps: Callable[[str], None] = lambda _: None,
) -> list[Check]:
    """All checks, each device with a real evaluation. Takes some seconds a device. ``steps`` is
    called with what is looked at next."""
    place = cache or default_cache()
    looks: list[Callable[[], Check]] = [
        _torch,
        _compiler,
        _cpp_compiles,
        _cuda_toolkit,
        *OPTIONAL,
        _counters,
        _temporary_files,
        lambda: _cache_writable(place),
        lambda: _build_cache(place / "builds", cache_bytes),
        lambda: _kept_files("kept verdicts", place / "verdicts"),
        lambda: _kept_figures(place, "baselines"),
        lambda: _kept_figures(place, "ceilings"),
    ]
    steps("compilers, tools and folders")
    checks = [await anyio.to_thread.run_sync(look) for look in looks]
    for device in devices:
        steps(f"device {device}")
        checks += await _device(device, cache)
    steps("isolation")
    return [*checks, *await _surveyed(cache)]


async def _surveyed(cache: Path | None) -> list[Check]:
    try:
        async with LocalSandbox(("cpu",), cache=cache, require_isolation="C") as sandbox:
            return isolation_checks(await sandbox.survey())
    except (PrerequisiteMissing, SandboxFault) as fault:
        line = (str(fault).splitlines() or ["the sandbox failed"])[0]
        return [Check(name="isolation", ok=False, needed=True, detail=line)]


async def _device(device: str, cache: Path | None) -> list[Check]:
    name = f"device {device}"
    try:
        sandbox = LocalSandbox(
            (device,), limits=Limits(bench_s=0.2), cache=cache, require_isolation="C"
        )
        async with sandbox:
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
    evaluated = Check(name=name, ok=good, needed=True, detail=f"{seen}, evaluated a candidate")
    return [evaluated, *_gates(device, verdict)] if good and device != "cpu" else [evaluated]


def _gates(device: str, verdict: Verdict) -> list[Check]:
    """Whether the outer clock can hold claims against what calls take
    (``verifier/timing/gates.py``)."""
    why = [note for note in verdict.notes if note.startswith("not-gated: ")]
    detail = (
        why[0].removeprefix("not-gated: ") if why else "claims are held against the outer clock"
    )
    fix = "pip install the nvidia-cuda-nvrtc of torch's CUDA version" if "NVRTC" in detail else ""
    return [Check(name=f"gates {device}", ok=not why, needed=False, detail=detail, fix=fix)]


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
    name = "C++ compiler, Python headers"
    try:
        require_cpp()
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


def _counters() -> Check:
    name, refused = "Nsight Compute counters", refusal()
    if not refused:
        return Check(
            name=name, ok=True, needed=False, detail="present, and the driver lets any user read"
        )
    told, _, fix = refused.partition(": ")
    return Check(name=name, ok=False, needed=False, detail=told, fix=fix)


def _temporary_files() -> Check:
    name = "temporary files"
    fix = "make room, or set TMPDIR to a directory that can be written to"
    try:
        place = tempfile.gettempdir()
        _write_in(Path(place))
    except OSError as error:
        return Check(name=name, ok=False, needed=True, detail=str(error), fix=fix)
    return Check(name=name, ok=True, needed=True, detail=f"can be written in {place}")


def _cache_writable(place: Path) -> Check:
    name = "cache"
    fix = "make room, or set XDG_CACHE_HOME; without it all is built and looked up anew"
    try:
        place.mkdir(parents=True, exist_ok=True)
        _write_in(place)
    except OSError as error:
        return Check(name=name, ok=False, needed=False, detail=str(error), fix=fix)
    return Check(name=name, ok=True, needed=False, detail=f"can be written in {place}")


def _write_in(place: Path) -> None:
    """So much that a full disk shows. Raises ``OSError``."""
    with tempfile.TemporaryFile(dir=place) as file:
        file.write(bytes(1 << 20))
        file.flush()


def _build_cache(root: Path, most_bytes: int) -> Check:
    builds, size = BuildCache(root).size()
    detail = f"{size / 2**30:.1f} of at most {most_bytes / 2**30:g} GB, {builds} builds in {root}"
    return Check(name="build cache", ok=True, needed=False, detail=detail)


def _kept_files(name: str, directory: Path) -> Check:
    files = KeptFiles(directory)
    count, size = files.size()
    detail = f"{count} of at most {files.most}, {size / 2**20:.1f} MB in {directory}"
    return Check(name=name, ok=True, needed=False, detail=detail)


def _kept_figures(place: Path, kind: HoldingKind) -> Check:
    """With when they were measured: a figure is worth what the machine was worth then."""
    held = holding(place, kind)
    most = f" of at most {KeptFiles(place / kind).most}" if kind == "baselines" else ""
    detail = f"{held.number}{most}, {held.bytes / 2**20:.1f} MB in {held.place}"
    if held.oldest and held.newest:
        detail += f", measured {held.oldest} to {held.newest}"
    return Check(name=f"kept {kind}", ok=True, needed=False, detail=detail)


def _compiles(name: str, command: list[str], source: str, fix: str) -> Check:
    if shutil.which(command[0]) is None:
        return Check(name=name, ok=False, needed=False, detail=f"no {command[0]}", fix=fix)
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "probe"
            path.write_text(source)
            words = [*command, "-c", str(path), "-o", f"{path}.o"]
            run = subprocess.run(
                words, capture_output=True, text=True, check=False, env=tool_environment()
            )
    except OSError as error:
        return Check(name=name, ok=False, needed=False, detail=str(error), fix="")
    if run.returncode:
        said = (run.stderr.splitlines() or ["it failed"])[0]
        return Check(name=name, ok=False, needed=False, detail=said, fix=fix)
    version = subprocess.run(
        [command[0], "--version"], capture_output=True, text=True, check=False,
        env=tool_environment(),
    ).stdout  # fmt: skip
    lines = [line for line in version.splitlines() if any(c.isdigit() for c in line)]
    detail = next((line for line in lines if "release" in line), (lines or ["works"])[0])
    return Check(name=name, ok=True, needed=False, detail=detail.strip())


# --- isolation: what held when the zygote attacked it


def isolation_checks(survey: Survey) -> list[Check]:
    """One check a layer, and one for all attacks together."""
    checks = [
        Check(name=f"isolation {layer}", ok=True, needed=False, detail="held against its attacks")
        for layer in survey.layers
    ]
    for layer, reason in survey.missing.items():
        told, _, fix = reason.partition("; ")  # what is wrong, and what can be done
        check = Check(name=f"isolation {layer}", ok=False, needed=False, detail=told, fix=fix)
        checks.append(check)
    if not may_connect(survey.layers):
        checks.append(_TOOLS_APART)
    through = [finding for finding in survey.findings if not finding.held]
    told = "; ".join(f"{finding.attack}: {finding.detail}" for finding in through)
    count = f"{len(survey.findings) - len(through)} of {len(survey.findings)} attacks held"
    checks.append(
        Check(
            name=f"isolation tier {survey.tier}",
            ok=survey.tier == "A" and not through,
            needed=False,
            detail=f"{count}; {told}" if told else count,
            fix=_TOO_WEAK if survey.tier == "C" else "",
        )
    )
    return checks
