"""The reference's other baselines: what ``torch.compile`` makes of it, cached.

A compiled baseline is judged like a candidate: it is the task's own ``Model``, compiled, in
a worker of its own, compared with eager in every trial and timed against it in pairs. So a
compiler that gets the answer wrong shows, and the figure is as sound as a candidate's.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from events.outcomes import Outcome
from gpu_sandbox.devices import torch_identity
from gpu_sandbox.port import Baseline, BaselineRequest, EvaluationRequest, Evaluator

__all__ = ["KINDS", "Compared", "Kind", "compare_baselines", "compiled_source"]

Kind: TypeAlias = Literal["eager", "compile", "max-autotune"]
KINDS: tuple[Kind, ...] = ("eager", "compile", "max-autotune")
_MODES = {"compile": "default", "max-autotune": "max-autotune"}

_COMPILED = '''

class ModelNew(Model):
    """The reference, compiled."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.compile(mode={mode!r})
'''


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One baseline. ``speedup`` is over eager; ``outcome`` is a compiled one's, which may
    have failed: then there is no runtime."""

    kind: Kind
    runtime_ms: float | None
    speedup: float | None
    outcome: Outcome | None
    conditions: dict[str, Any]
    notes: list[str]
    cached: bool = False


def compiled_source(task_source: str, kind: Kind) -> str:
    """The candidate that stands for a compiled baseline."""
    return task_source + _COMPILED.format(mode=_MODES[kind])


async def compare_baselines(
    evaluator: Evaluator,
    request: BaselineRequest,
    kinds: tuple[Kind, ...],
    cache: Path,
    *,
    fresh: bool = False,
) -> list[Compared]:
    """``request`` for eager, then each of ``kinds``, from ``cache`` where it knows them and
    they need not be ``fresh``.

    Raises what the evaluator raises.
    """
    facts = await evaluator.fingerprint(request.device)
    found: list[Compared] = []
    eager: Baseline | None = None
    for kind in kinds:
        path = cache / f"{_key(request, facts, kind)}.json"
        known = None if fresh else _read(path)
        if known is None:
            eager = eager or await evaluator.baseline(request)
            if kind == "eager":
                known = _of_eager(eager)
            else:
                known = await _compiled(evaluator, request, kind, eager)
            _write(path, known)
        found.append(known)
    return found


def _of_eager(baseline: Baseline) -> Compared:
    return Compared(
        kind="eager",
        runtime_ms=baseline.runtime_ms,
        speedup=1.0,
        outcome=None,
        conditions=baseline.conditions,
        notes=[*baseline.audit, *baseline.notes],
    )


async def _compiled(
    evaluator: Evaluator, request: BaselineRequest, kind: Kind, eager: Baseline
) -> Compared:
    verdict = await evaluator.evaluate(
        EvaluationRequest(
            task_name=request.task_name,
            task_source=request.task_source,
            candidate_source=compiled_source(request.task_source, kind),
            device=request.device,
            protocol=request.protocol,
            seed=request.seed,
            root_ms=eager.runtime_ms,
        )
    )
    outcome = verdict.outcome
    return Compared(
        kind=kind,
        runtime_ms=getattr(outcome, "runtime_ms", None),
        speedup=getattr(outcome, "speedup", None),
        outcome=outcome,
        conditions=eager.conditions,
        notes=verdict.notes,
    )


def _key(request: BaselineRequest, facts: dict[str, Any], kind: str) -> str:
    """Task, device, versions and protocol; not the seed: it draws other inputs only."""
    told = [request.task_source, request.device, request.protocol, kind, torch_identity()]
    text = "\0".join([*told, json.dumps(facts, sort_keys=True)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read(path: Path) -> Compared | None:
    with suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(path.read_bytes(), type=Compared)
        return msgspec.structs.replace(known, cached=True)
    return None


def _write(path: Path, compared: Compared) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(msgspec.json.encode(compared))
    fresh.replace(path)
