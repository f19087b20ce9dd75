"""Baselines: the reference, eager or by ``torch.compile``, cached when measured.

A compiled baseline is judged like a candidate: the task's own ``Model``, compiled, in a worker of
its own. One that is wrong with TF32 is compiled once more without. A figure of a busy machine
(``contention/thresholds.py``) is labelled, serves its own sandbox, and is not cached.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec

from events.outcomes import BUSY_MACHINE, BaselineKind, Correct, WrongResult
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    EvaluationRequest,
    SandboxFault,
    TaskUnusable,
    Verdict,
)
from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.api.timestamps import utc_now
from gpu_sandbox.contention.thresholds import busy_pairs
from gpu_sandbox.devices.device_pool import Judged
from gpu_sandbox.evaluate.job_spec import as_declared
from gpu_sandbox.evaluate.verdict_cache import harness_version
from gpu_sandbox.ipc.verifier_messages import Measured, TaskBroken
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.store.file_cache import KeptFiles
from gpu_sandbox.toolchain.identity import torch_identity

KINDS: tuple[BaselineKind, ...] = get_args(BaselineKind)
COMPILE_S = 900.0  # one answer of a compiled baseline: max-autotune tries many kernels
_MODES = {"compile": "default", "max-autotune": "max-autotune"}
_COMPILED = '''

class ModelNew(Model):
    """The reference, compiled."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.compile(mode={mode!r})
'''
_WITHOUT_TF32 = """
import torch

torch.backends.cudnn.allow_tf32 = False
"""


def eager_baseline(judged: Judged, facts: dict[str, Any], isolation: list[str]) -> Baseline:
    """The baseline that a job found. Raises ``TaskUnusable`` and ``SandboxFault``."""
    report = judged.results[0].report
    finding = report.finding
    if isinstance(finding, TaskBroken):
        raise TaskUnusable(finding.reason, finding.detail)
    if not isinstance(finding, Measured):
        raise SandboxFault(f"a baseline ended as {type(finding).__name__}")
    where = {"device": judged.device.name, "device_name": facts["name"]}
    found = Baseline(
        runtime_ms=finding.runtime_ms,
        spread=finding.spread,
        repetitions=finding.repetitions,
        timings_s={**report.timings_s, "lease": judged.lease_s},
        isolation=isolation,
        audit=finding.audit,
        conditions={**where, **report.conditions},
        notes=report.notes,
        measured_at=utc_now(),
    )
    return _labelled(found, report.busy)


def _labelled(found: Baseline, busy: list[str]) -> Baseline:
    """With label and note if the machine was busy."""
    if not busy:
        return found
    note = f"{BUSY_MACHINE}: {'; '.join(busy)}; used in this run, and not kept"
    return msgspec.structs.replace(found, labels=[BUSY_MACHINE], notes=[*found.notes, note])


def as_candidate(
    request: BaselineRequest, eager: Baseline, *, tf32: bool = True
) -> EvaluationRequest:
    """The candidate that stands for a compiled baseline."""
    return EvaluationRequest(
        task_name=request.task_name,
        task_source=request.task_source,
        candidate_source=_compiled(request) + ("" if tf32 else _WITHOUT_TF32),
        device=request.device,
        protocol=request.protocol,
        seed=request.seed,
        root_ms=eager.runtime_ms,
        conditions=True,
    )


def _compiled(request: BaselineRequest) -> str:
    precision = protocol_named(request.protocol).precision
    return as_declared(request.task_source, precision) + _COMPILED.format(mode=_MODES[request.kind])


def wrong_by_tf32(request: BaselineRequest, verdict: Verdict, eager: Baseline) -> bool:
    """Whether a compiled baseline may be right without it."""
    full = protocol_named(request.protocol).precision == "float32"
    allowed = eager.conditions.get("cudnn_tf32") is True
    return full and allowed and isinstance(verdict.outcome, WrongResult)


def compiled_baseline(
    kind: BaselineKind, verdict: Verdict, eager: Baseline, *, wrong: Verdict | None = None
) -> Baseline:
    """The baseline that a verdict makes; a failure has no runtime. ``wrong`` is the verdict with
    TF32, where this one is without."""
    notes = verdict.notes
    where = {"device": verdict.device, "device_name": eager.conditions.get("device_name")}
    conditions = {**where, **verdict.conditions}
    if wrong is not None:
        conditions = {**conditions, "cudnn_tf32": False}
        notes = [*notes, f"compiled without TF32; with it: {wrong.outcome.reason}"]
    correct = verdict.outcome if isinstance(verdict.outcome, Correct) else None
    found = Baseline(
        kind=kind,
        runtime_ms=correct.runtime_ms if correct else None,
        spread=None,
        repetitions=correct.pairs if correct else 0,
        outcome=verdict.outcome,
        timings_s=verdict.timings_s,
        isolation=verdict.isolation,
        conditions=conditions,
        notes=notes,
        measured_at=utc_now(),
    )
    return _labelled(found, _busy_while(correct, verdict, eager)) if correct else found


def _busy_while(correct: Correct, verdict: Verdict, eager: Baseline) -> list[str]:
    """Its runtime is eager's times a ratio: either may be of a busy machine."""
    busy = [*verdict.busy]
    if "below-resolution" not in correct.labels:  # such intervals are wide on any machine
        busy += busy_pairs(correct.ratio_low, correct.ratio_high)
    return [*busy, "so was eager"] if BUSY_MACHINE in eager.labels else busy


class KeptBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a kept baseline."""

    task_name: str
    protocol: str
    baseline: Baseline


class KnownBaselines:
    """Files by task, device, versions, harness, protocol and kind; not by seed, which draws other
    inputs only."""

    def __init__(self, directory: Path, keeping: Keeping | None = None) -> None:
        self._files = KeptFiles(directory, keeping=keeping)
        self._passing: dict[str, Baseline] = {}
        """Measured on a busy machine: good enough for as long as this sandbox lives."""

    def find(self, request: BaselineRequest, facts: dict[str, Any]) -> Baseline | None:
        name = _name(request, facts)
        if name in self._passing:
            return msgspec.structs.replace(self._passing[name], cached=True)
        data = self._files.find(name)
        if data is None:
            return None
        with suppress(msgspec.MsgspecError):
            known = msgspec.json.decode(data, type=KeptBaseline).baseline
            if known.measured_at:  # else by an engine that cached figures of busy machines
                return msgspec.structs.replace(known, cached=True)
        self._files.drop(name)
        return None

    def keep(self, request: BaselineRequest, facts: dict[str, Any], found: Baseline) -> None:
        """On disk, unless the machine was busy."""
        name = _name(request, facts)
        if BUSY_MACHINE in found.labels:
            self._passing[name] = found
            return
        self._passing.pop(name, None)
        kept = KeptBaseline(task_name=request.task_name, protocol=request.protocol, baseline=found)
        self._files.keep(name, msgspec.json.encode(kept))

    def drop(self, request: BaselineRequest, facts: dict[str, Any]) -> bool:
        """Whether there was one of this task, device, protocol and kind."""
        name = _name(request, facts)
        passing = self._passing.pop(name, None)
        return self._files.drop(name) or passing is not None


def _name(request: BaselineRequest, facts: dict[str, Any]) -> str:
    parts = [harness_version(), request.task_source, request.device, request.protocol, request.kind]
    text = "\0".join([*parts, torch_identity(), json.dumps(facts, sort_keys=True)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32] + ".json"
