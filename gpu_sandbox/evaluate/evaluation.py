"""One evaluation: static guard, build, device, autopsy and observations, verdict."""

from __future__ import annotations

import time
from typing import Any

import anyio.to_thread
import msgspec

from events.observations import Observations
from events.outcomes import Correct, Outcome, Refused
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import EvaluationRequest, SandboxFault, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.api.progress import say
from gpu_sandbox.api.timestamps import utc_now
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.builds.compile_pool import Candidate, Compiled
from gpu_sandbox.devices.device_pool import Judged
from gpu_sandbox.devices.recheck import ToBeat, stage_seconds
from gpu_sandbox.evaluate.job_spec import job_for
from gpu_sandbox.evaluate.judged_candidate import JudgedCandidate
from gpu_sandbox.evaluate.observations import completed, reach_after
from gpu_sandbox.evaluate.outcomes import (
    busy_in,
    cleaned,
    conditions_of,
    ended_as,
    load_of,
    observed_in,
)
from gpu_sandbox.evaluate.post_mortem import examined
from gpu_sandbox.evaluate.preparation import Place
from gpu_sandbox.evaluate.resources import Opened
from gpu_sandbox.evaluate.speed_of_light import weighed
from gpu_sandbox.languages import languages_on
from gpu_sandbox.static_checks.compiles_on_call import compiles_when_called
from gpu_sandbox.static_checks.precheck import inspect_candidate

_FAULTS = (SandboxFault, OSError)  # of what is done besides: they don't cost the verdict


class Evaluation:
    """Of one request. Raises ``PrerequisiteMissing`` for what this machine can't do, as
    ``verdict`` does, which raises ``SandboxFault``, too."""

    def __init__(self, opened: Opened, limits: Limits, request: EvaluationRequest) -> None:
        self._opened, self._limits, self._request = opened, limits, request
        self._devices = opened.devices.of(request.device)
        self._job = job_for(request, self._devices[0], limits)
        self._timings_s: dict[str, float] = {}
        self._isolation: list[str] = []

    async def verdict(self) -> Verdict:
        source, device = self._request.candidate_source, self._devices[0]
        began = time.monotonic()
        inspected = await anyio.to_thread.run_sync(inspect_candidate, source)
        guarded = time.monotonic()
        self._timings_s["guard"] = guarded - began
        self._isolation = await self._opened.isolation()
        if inspected.outcome is not None:
            return self._ended(inspected.outcome, device, compile_log=inspected.log)
        facts = await self._opened.devices.facts_of(self._devices)
        self._timings_s["start"] = time.monotonic() - guarded
        candidate = Candidate(
            source=source,
            task_source=self._request.task_source,
            device=device,
            facts=facts[0],
            inspected=inspected,
        )
        if inspected.builds:
            say("compiling")
            self._opened.devices.get_ready(self._devices, facts)
        built = await self._opened.compilers(device).build(candidate)
        try:
            self._timings_s["compile"] = built.seconds
            if built.outcome is not None:
                log = built.log
                return self._ended(built.outcome, device, queue_s=built.queue_s, compile_log=log)
            judged = await self._prepared(candidate, built, facts)
            if judged is None:
                say("on the device, or waiting for it")
                judged = await self._opened.devices.judge(
                    self._devices, facts, self._job, built.files, self._to_beat
                )
                self._timings_s["lease"] = judged.lease_s
            return await self._concluded(candidate, built, judged)
        finally:
            built.files.close()

    async def _prepared(
        self, candidate: Candidate, built: Compiled, facts: list[dict[str, Any]]
    ) -> Judged | None:
        """None: go on to the device, with what was compiled, or without."""
        opened = self._opened
        fit = opened.devices.fit(self._devices, facts)
        if not fit or not await _compiles_on_call(candidate, built.files):
            return None
        say("preparing")
        began = time.monotonic()
        places = [Place(device, name, opened.compiling(device)) for name, device in fit.items()]
        place = opened.preparations.least_busy(places)
        threads = opened.devices.threads(place.device)
        job = msgspec.structs.replace(self._job, threads=threads)
        backend = backend_of(place.device)
        try:
            if any(language.cache_keys for language in languages_on(backend.kind)):
                await opened.zygote.compute_cache_keys()
            opened.devices.get_ready(self._devices, facts)
            prepared = await opened.preparations.prepare(place, job, built.files)
        except SandboxFault:
            return None
        finally:
            self._timings_s["prepare"] = time.monotonic() - began
        if prepared.stuck and backend.has_contexts:
            opened.devices.stuck(place.device)
        if prepared.call_s is not None:
            ms = 1000 * prepared.call_s
            self._job = msgspec.structs.replace(self._job, prepared_call_ms=ms)
        if prepared.timed_out is None:
            return None
        return Judged(place.device, place.identity, [prepared.timed_out], [])

    async def _concluded(self, candidate: Candidate, built: Compiled, judged: Judged) -> Verdict:
        results, breakdowns = judged.results, judged.breakdowns
        self._timings_s.update(stage_seconds(results))
        outcome, run_log, notes = ended_as(results, breakdowns, self._request.root_ms)
        case = JudgedCandidate(
            opened=self._opened,
            limits=self._limits,
            request=self._request,
            candidate=candidate,
            files=built.files,
            judged=judged,
            notes=notes,
        )
        found = await self._examined(case, outcome)
        observations = observed_in(results)
        if isinstance(outcome, Correct):
            notes += [f"not sound: {' '.join(found[:2])}"] if found else []
            outcome, observations = await self._weighed(case, outcome, observations)
        return self._ended(
            outcome,
            judged.device,
            queue_s=built.queue_s + judged.queue_s,
            compile_log=built.log,
            run_log="\n".join(part for part in (*(found or ()), run_log) if part),
            resources=built.files.record.resources,
            observations=observations,
            conditions=conditions_of(results),
            busy=busy_in(results),
            notes=[*built.notes, *notes],
        )

    async def _examined(self, case: JudgedCandidate, outcome: Outcome) -> list[str] | None:
        began = time.monotonic()
        try:
            found = await examined(case, outcome, self._to_beat)
        except _FAULTS as fault:
            case.notes.append(f"no autopsy: {fault}")
            return None
        if found is not None:
            self._timings_s["autopsy"] = time.monotonic() - began
        return found

    async def _weighed(
        self, case: JudgedCandidate, outcome: Correct, seen: Observations | None
    ) -> tuple[Correct | Refused, Observations | None]:
        """A correct outcome against what the device can do, and its observations in full."""
        opened, device, results = self._opened, case.device, case.judged.results
        if seen is not None:
            try:
                seen = await completed(case, seen)
            except _FAULTS as fault:
                case.notes.append(f"observations are not complete: {fault}")
        case.notes.extend(opened.devices.sharing(device))
        precision, has_tf32 = self._job.protocol.precision, backend_of(device).has_tf32
        load = load_of(results, seen, precision, has_tf32=has_tf32)
        try:
            reach = await reach_after(case, outcome, load)
        except _FAULTS as fault:
            case.notes.append(f"a ceiling was beaten, and could not be measured again: {fault}")
            reach = opened.reach(device, case.candidate.facts)
        if seen is not None and seen.ceilings is not None and reach.probed:
            seen = msgspec.structs.replace(seen, ceilings=reach.probed)
        weighed_outcome, notes = weighed(outcome, load, reach)
        case.notes.extend(notes)
        return weighed_outcome, seen

    @property
    def _to_beat(self) -> ToBeat | None:
        """None where there is no root."""
        request = self._request
        if request.root_ms is None:
            return None
        ratio = (request.incumbent_ms or request.root_ms) / request.root_ms
        return ToBeat(ratio, request.score)

    def _ended(
        self, outcome: Outcome, device: Device, queue_s: float = 0.0, **found: Any
    ) -> Verdict:
        verdict = Verdict(
            outcome=cleaned(outcome),
            protocol=self._request.protocol,
            device=device.name,
            isolation=self._isolation,
            timings_s=self._timings_s,
            queue_s=queue_s,
            usage=self._opened.usage(),
            measured_at=utc_now(),
        )
        return msgspec.structs.replace(verdict, **found)


async def _compiles_on_call(candidate: Candidate, files: BuildFiles) -> bool:
    """When called, or in its constructor an extension that the compile stage did not reach."""
    built = any(name.endswith(".so") for name in files.names)
    late = candidate.inspected.builds_late and not built
    return late or await anyio.to_thread.run_sync(compiles_when_called, candidate.source)
