"""Whether this machine can evaluate candidates, as data: ``engine doctor`` prints it.

Every check says what was seen and, when it fails, what to do. ``needed`` checks decide
whether anything can be evaluated at all; the others name what is merely absent.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from events.outcomes import Correct
from gpu_sandbox.api.check import Check
from gpu_sandbox.api.evaluator import EvaluationRequest, PrerequisiteMissing, SandboxFault
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.known import BACKENDS, backend_named
from gpu_sandbox.builds.build_cache import CACHE_BYTES, BuildCache
from gpu_sandbox.confine import Survey
from gpu_sandbox.confine.policy import may_connect
from gpu_sandbox.confine.survey_cache import forget_survey
from gpu_sandbox.doctor.cache_contents import (
    HOLDING_KINDS,
    HoldingKind,
    holding,
    older_caches,
)
from gpu_sandbox.doctor.optional_tools import OPTIONAL
from gpu_sandbox.sandbox import LocalSandbox, default_cache
from gpu_sandbox.store.file_cache import KeptFiles
from gpu_sandbox.toolchain.identity import torch_identity

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
_TOO_WEAK = "candidates are refused here: mend what is absent above, or give --allow-weak-isolation"


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
        *(look for backend in BACKENDS for look in backend.checks.machine),
        *OPTIONAL,
        _temporary_files,
        lambda: _cache_writable(place),
        lambda: _build_cache(place / "builds", cache_bytes),
        lambda: _kept_files("kept verdicts", place / "verdicts"),
        lambda: _kept_figures(place, "baselines"),
        lambda: _kept_figures(place, "ceilings"),
        lambda: _older_caches(place),
    ]
    steps("compilers, tools and folders")
    checks = [await anyio.to_thread.run_sync(look) for look in looks]
    for device in devices:
        steps(f"device {device}")
        checks += await _device(device, cache)
    steps("isolation")
    return [*checks, *await _surveyed(cache)]


async def _surveyed(cache: Path | None) -> list[Check]:
    """By a new survey, whatever an earlier start has found."""
    try:
        forget_survey((cache or default_cache()) / "isolation")
        async with LocalSandbox(("cpu",), cache=cache, require_isolation="C") as sandbox:
            return isolation_checks(await sandbox.survey())
    except (PrerequisiteMissing, SandboxFault, OSError) as fault:
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
    checks = backend_named(device).checks
    return [evaluated, *checks.of_verdict(device, verdict.notes)] if good else [evaluated]


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


def _older_caches(place: Path) -> Check:
    """Verdicts, baselines and builds of earlier formats: they are never looked up again."""
    found = older_caches(place)
    held = [holding(cache, kind) for cache in found for kind in HOLDING_KINDS]
    kinds = dict.fromkeys(each.kind for each in held if each.number)
    size_mb = sum(found.values()) / 2**20
    what = f"{size_mb:.1f} MB of earlier formats ({', '.join(kinds) or 'empty'})"
    places = " ".join(shlex.quote(str(cache)) for cache in found)
    return Check(
        name="older caches", ok=True, needed=False, detail=what if found else "none",
        fix=f"to remove them: rm -r {places}" if found else "",
    )  # fmt: skip


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
    can_connect = may_connect(survey.layers)
    for backend in BACKENDS:
        checks += backend.checks.of_isolation(can_connect=can_connect)
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
