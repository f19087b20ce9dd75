"""Verdicts of earlier runs, for requests that allow them (``reuse``).

A verdict is a measurement with a spread. So what would be a search's best is never taken from
here, and all that is says so (``Verdict.cached``).
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from events.outcomes import Correct, TimedOut
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.known import backend_named
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.store.file_cache import KeptFiles
from gpu_sandbox.toolchain.identity import torch_identity

_PACKAGE = Path(__file__).parents[1]


@cache
def harness_version() -> str:
    """Digest of this package's files: whatever is changed in it may change a verdict."""
    digest = hashlib.sha256()
    for path in sorted(p for p in _PACKAGE.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        digest.update(f"{path.relative_to(_PACKAGE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class KnownVerdicts:
    """Files by all that a verdict depends on but the seed."""

    def __init__(self, directory: Path, keeping: Keeping | None = None) -> None:
        self._files = KeptFiles(directory, keeping=keeping)

    def find(
        self, request: EvaluationRequest, limits: Limits, facts: dict[str, Any], layers: list[str]
    ) -> Verdict | None:
        """The kept verdict, without its times; None where there is none that will do."""
        data = self._files.find(_name(request, limits, facts, layers))
        with suppress(msgspec.MsgspecError):
            if data is not None:
                return _served(msgspec.json.decode(data, type=Verdict), request)
        return None

    def keep(
        self,
        request: EvaluationRequest,
        limits: Limits,
        facts: dict[str, Any],
        layers: list[str],
        verdict: Verdict,
    ) -> None:
        """Keep it, unless a busy machine may have had a part in it."""
        busy = isinstance(verdict.outcome, Correct) and verdict.busy
        if busy or isinstance(verdict.outcome, TimedOut):
            return
        with suppress(msgspec.MsgspecError, UnicodeEncodeError):
            data = msgspec.json.encode(verdict)
            self._files.keep(_name(request, limits, facts, layers), data)


def _name(
    request: EvaluationRequest, limits: Limits, facts: dict[str, Any], layers: list[str]
) -> str:
    parts = [
        harness_version(), request.task_source, request.candidate_source, request.device,
        request.protocol, ",".join(request.observe), msgspec.json.encode(limits).decode(),
        ",".join(layers), torch_identity(), backend_named(request.device).builds.toolchain(),
        json.dumps(facts, sort_keys=True), str(request.autopsy_of_wrong),
    ]  # fmt: skip
    # With their lengths: a candidate chooses its text, and must not reach its neighbours'.
    text = "".join(f"{len(part)}\0{part}" for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32] + ".json"


def _served(kept: Verdict, request: EvaluationRequest) -> Verdict | None:
    """As an answer to ``request``; None for what would be the best so far, or has no root to
    be relative to."""
    outcome = kept.outcome
    if isinstance(outcome, Correct):
        if request.root_ms is None or request.incumbent_ms is None:
            return None
        outcome = msgspec.structs.replace(outcome, runtime_ms=request.root_ms * outcome.ratio)
        if outcome.runtime_by(request.score) <= request.incumbent_ms:
            return None
    return msgspec.structs.replace(
        kept, outcome=outcome, timings_s={}, queue_s=0.0, usage=None, cached=True
    )
