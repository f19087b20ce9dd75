"""Evaluations as effects: ask the sandbox, log its verdict or its failure."""

from __future__ import annotations

from typing import Protocol

import msgspec

from engine.loop.error_line import line_about
from engine.loop.feed import Feed
from engine.loop.methods import observed_for
from engine.loop.texts import Texts, storable
from events.bodies import (
    BaselineMeasured,
    BaselineRequested,
    DeviceQuarantined,
    EvaluationFaulted,
    EvaluationFinished,
    EvaluationRequested,
    TaskRejected,
)
from events.envelope import Blob
from events.errors import BodyInvalid
from events.outcomes import BaselineKind, Refused
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    EvaluationRequest,
    Evaluator,
    NoDeviceLeft,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
    Verdict,
)
from gpu_sandbox.evaluate.labels import accepted

__all__ = ["Evaluations", "Recorded"]


class Recorded(Protocol):
    """Earlier verdicts, to be taken instead of new ones."""

    def __call__(self, source_sha256: str) -> EvaluationFinished | None:
        """The next one on this source, if there is one."""


class Evaluations:
    """What a run asks of its sandbox; ``recorded`` is looked at before."""

    def __init__(
        self, feed: Feed, texts: Texts, evaluator: Evaluator, recorded: Recorded | None
    ) -> None:
        self._feed = feed
        self._texts = texts
        self._evaluator = evaluator
        self._recorded = recorded
        self._quarantined: set[str] = set()
        """Those that the log knows of."""

    async def baseline(self, requested: BaselineRequested) -> None:
        state, started = self._feed.state, self._feed.state.started
        assert started is not None
        sandbox, kind = state.config.sandbox, requested.baseline
        request = BaselineRequest(
            task_name=started.task_name,
            task_source=self._texts.get(started.task_sha256),
            device=sandbox.device,
            protocol=sandbox.protocol,
            seed=state.config.search.seed,
            kind=kind,
            reuse=True,
        )
        try:
            baseline = await self._evaluator.baseline(request)
        except TaskUnusable as unusable:
            reason, detail = storable(unusable.reason), storable(unusable.detail)
            if kind == "eager":
                self._feed(TaskRejected(reason=reason, detail=detail))
            else:
                self._faulted(0, 1, unusable, kind)
        except Exception as fault:
            self._faulted(0, requested.try_, fault, kind)
        else:
            self._feed(_measured(kind, baseline))

    async def evaluate(self, requested: EvaluationRequested) -> None:
        state, started = self._feed.state, self._feed.state.started
        recorded = self._known(requested)
        if recorded is not None:
            self._repeat(requested.attempt, recorded)
            return
        assert started is not None
        sandbox, incumbent = state.config.sandbox, requested.incumbent
        request = EvaluationRequest(
            task_name=started.task_name,
            task_source=self._texts.get(started.task_sha256),
            candidate_source=self._texts.get(requested.source_sha256),
            device=sandbox.device,
            protocol=sandbox.protocol,
            seed=requested.seed,
            root_ms=state.tree.root.runtime_ms,
            incumbent_ms=None if incumbent is None else state.tree[incumbent].score_ms,
            score=state.config.search.score,
            reuse=sandbox.cache_verdicts,
            observe=observed_for(state.config),
            refuse=tuple(sandbox.refuse),
        )
        try:
            verdict = await self._evaluator.evaluate(request)
        except Exception as fault:
            self._faulted(requested.attempt, requested.try_, fault)
        else:
            try:
                self._judged(requested.attempt, verdict)
            except BodyInvalid as error:
                # A verdict that JSON can't hold is the sandbox's fault, whatever caused it.
                unloggable = SandboxFault(f"the verdict can't be logged: {error}")
                self._faulted(requested.attempt, requested.try_, unloggable)

    def _known(self, requested: EvaluationRequested) -> EvaluationFinished | None:
        """The verdict to take, where there is one and no time has to be spent."""
        if requested.same_as is not None:
            return self._feed.state.verdicts[requested.same_as].taken(same_as=requested.same_as)
        found = self._recorded(requested.source_sha256) if self._recorded else None
        if found is None:
            return None
        refuse = self._feed.state.config.sandbox.refuse
        match found.outcome:
            case Refused(label=str() as label) if label not in refuse:
                return None  # this run would not have refused it
        return msgspec.structs.replace(found, outcome=accepted(found.outcome, found.notes, refuse))

    def _repeat(self, attempt: int, recorded: EvaluationFinished) -> None:
        logs = {"compile_log": recorded.compile_log_sha256, "run_log": recorded.run_log_sha256}
        blobs = [self._texts.put(name, self._texts.get(sha)) for name, sha in logs.items() if sha]
        self._feed(msgspec.structs.replace(recorded, attempt=attempt), blobs)

    def _faulted(
        self, attempt: int, try_: int, fault: Exception, baseline: BaselineKind = "eager"
    ) -> None:
        """What the sandbox raised. One unforeseen fault must not end the run, nor be
        told as less than it is."""
        self._note_quarantined()
        foreseen = isinstance(fault, SandboxFault | PrerequisiteMissing | TaskUnusable)
        self._feed(
            EvaluationFaulted(
                attempt=attempt,
                try_=try_,
                message=storable(str(fault) if foreseen else line_about(fault)),
                retryable=not isinstance(fault, NoDeviceLeft | PrerequisiteMissing),
                baseline=baseline,
            )
        )

    def _note_quarantined(self) -> None:
        for device, reason in self._evaluator.load().quarantined.items():
            if device not in self._quarantined:
                self._quarantined.add(device)
                self._feed.note(DeviceQuarantined(device=device, reason=storable(reason)))

    def _judged(self, attempt: int, verdict: Verdict) -> None:
        self._note_quarantined()
        blobs: dict[str, Blob] = {}
        for name in ("compile_log", "run_log"):
            text = getattr(verdict, name)
            if text:
                blobs[name] = self._texts.put(name, text)
        self._feed(
            EvaluationFinished(
                attempt=attempt,
                outcome=verdict.outcome,
                protocol=verdict.protocol,
                timings_s=verdict.timings_s,
                queue_s=verdict.queue_s,
                device=verdict.device,
                isolation=verdict.isolation,
                compile_log_sha256=blobs["compile_log"].sha256 if "compile_log" in blobs else None,
                run_log_sha256=blobs["run_log"].sha256 if "run_log" in blobs else None,
                notes=verdict.notes,
                usage=verdict.usage,
                resources=verdict.resources,
                cached=verdict.cached,
                measured_at=verdict.measured_at if verdict.cached else "",
                observations=verdict.observations,
            ),
            blobs.values(),
        )


def _measured(kind: BaselineKind, baseline: Baseline) -> BaselineMeasured:
    return BaselineMeasured(
        runtime_ms=baseline.runtime_ms,
        spread=baseline.spread,
        repetitions=baseline.repetitions,
        timings_s=baseline.timings_s,
        isolation=baseline.isolation,
        notes=baseline.notes,
        audit=baseline.audit,
        conditions=baseline.conditions,
        baseline=kind,
        outcome=baseline.outcome,
        cached=baseline.cached,
        measured_at=baseline.measured_at,
        labels=[*baseline.labels],
    )
