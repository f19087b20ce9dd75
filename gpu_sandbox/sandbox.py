"""``LocalSandbox``: the evaluator that runs candidates on this machine.

This process never imports torch; foreign code runs in jailed forks of the zygote.
"""

from __future__ import annotations

import os
import resource
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import anyio.to_thread
from msgspec.structs import replace

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    DeviceLoad,
    EvaluationRequest,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
    Verdict,
)
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.builds.build_cache import CACHE_BYTES, BuildFiles
from gpu_sandbox.confine import Survey, Tier
from gpu_sandbox.devices.verifier_client import VerifierDied, VerifierSilent
from gpu_sandbox.evaluate.baselines import (
    COMPILE_S,
    KINDS,
    KnownBaselines,
    as_candidate,
    compiled_baseline,
    eager_baseline,
    wrong_by_tf32,
)
from gpu_sandbox.evaluate.combined_sets import baseline_of_all, verdict_on_all
from gpu_sandbox.evaluate.evaluation import Evaluation
from gpu_sandbox.evaluate.input_sets import BadInputSets, InputSet, input_sets
from gpu_sandbox.evaluate.job_spec import job_for
from gpu_sandbox.evaluate.labels import accepted, read
from gpu_sandbox.evaluate.outcomes import cleaned
from gpu_sandbox.evaluate.resources import Opened, Settings
from gpu_sandbox.evaluate.verdict_cache import KnownVerdicts
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.supervise.run_directory import own_directory, remove_stale, run_directory
from gpu_sandbox.toolchain.hf_cache import require_models

CACHE_NAME = "sandbox-2"
"""Directory of the cache. The number is raised when what is kept there changes form: ``engine
doctor`` names the caches of earlier formats."""
_DESCRIPTORS = 1 << 16


def default_cache() -> Path:
    try:
        home = Path.home()
    except RuntimeError:  # a user without one, as in a container
        home = Path("/nonexistent")
    base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base) / "stark-engine" / CACHE_NAME


def _raise_descriptor_limit() -> None:
    """Ours, and so the zygote's and the verifiers', above that of candidates: the kernel counts a
    user's descriptors in messages together, and candidates must not use up all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class LocalSandbox:
    """An ``Evaluator``, and an asynchronous context manager; safe for concurrent calls of one loop.

    Its processes start when they are first needed, and end when it is left. ``devices`` are the
    names that may be used. ``cache`` keeps builds (at most ``cache_bytes``), device facts,
    baselines and, on request, verdicts. ``compile_jobs`` bounds parallel compile children.
    Candidates that can't be isolated by tier ``require_isolation`` are not run.
    ``without_layers`` are layers of isolation to do without.
    """

    def __init__(
        self,
        devices: tuple[str, ...] = ("cpu",),
        *,
        limits: Limits | None = None,
        cache: Path | None = None,
        cache_bytes: int = CACHE_BYTES,
        compile_jobs: int | None = None,
        require_isolation: Tier = "B",
        without_layers: tuple[str, ...] = (),
    ) -> None:
        self._settings = Settings(
            devices=devices,
            limits=limits or Limits(),
            cache=cache or default_cache(),
            cache_bytes=cache_bytes,
            compile_jobs=compile_jobs,
            require_isolation=require_isolation,
            without_layers=without_layers,
        )
        self._keeping = Keeping(self._settings.cache)
        self._baselines = KnownBaselines(self._settings.cache / "baselines", self._keeping)
        self._verdicts = KnownVerdicts(self._settings.cache / "verdicts", self._keeping)
        self._stack = AsyncExitStack()
        self._opened: Opened | None = None

    async def __aenter__(self) -> LocalSandbox:
        """Also removes what killed engines left. Raises ``PrerequisiteMissing`` where there is no
        place for temporary files."""
        _raise_descriptor_limit()
        try:
            runs = Path(tempfile.gettempdir()) / f"gpu-sandbox-runs-{os.getuid()}"
            await anyio.to_thread.run_sync(remove_stale, own_directory(runs))
            run = await self._stack.enter_async_context(run_directory(runs))
        except OSError as error:
            raise PrerequisiteMissing(
                f"no temporary files can be made ({error}): make room, or set TMPDIR to a directory"
                " that can be written to"
            ) from error
        group = await self._stack.enter_async_context(anyio.create_task_group())
        self._opened = Opened(self._settings, run, group, self._keeping)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        opened, self._opened = self._opened, None
        assert opened is not None
        await opened.close()
        opened.zygote.group.cancel_scope.cancel()
        await self._stack.__aexit__(None, None, None)

    # --- the port

    def load(self) -> DeviceLoad:
        if self._opened is not None:
            return self._opened.load()
        return DeviceLoad(compiling=0, waiting_to_compile=0, waiting_for_device=0, on_device=0)

    async def survey(self) -> Survey:
        """What confines candidates here, as attacks on each layer have shown."""
        return await self._open.zygote.survey()

    async def fingerprint(self, device: str) -> dict[str, Any]:
        pool = self._open.devices
        devices = pool.of(device)
        await self._open.isolation()
        facts = await pool.facts_of(devices)
        return {key: value for key, value in facts[0].items() if key != "uuid"}

    async def baseline(self, request: BaselineRequest) -> Baseline:
        require_models(request.task_source)
        try:
            sets = input_sets(request.task_source)
        except BadInputSets as bad:
            raise TaskUnusable(str(bad)) from None
        if not sets:
            return await self._baseline(request)
        found = [
            (each, await self._baseline(replace(request, task_source=each.task_source)))
            for each in sets
        ]
        return baseline_of_all(found)

    async def _baseline(self, request: BaselineRequest) -> Baseline:
        devices = self._open.devices.of(request.device)
        await self._open.isolation()
        facts = await self._open.devices.facts_of(devices)
        if request.reuse:
            known = await anyio.to_thread.run_sync(self._baselines.find, request, facts[0])
            if known is not None:
                return known
        work = self._eager if request.kind == "eager" else self._compiled
        found = await work(request)
        if found.runtime_ms is not None:
            await anyio.to_thread.run_sync(self._baselines.keep, request, facts[0], found)
        return replace(found, notes=[*found.notes, *self._keeping.notes()])

    async def forget_baselines(self, request: BaselineRequest) -> int:
        """Drop cached baselines, of every kind, of the request's task, device and protocol.
        Returns how many."""
        devices = self._open.devices.of(request.device)
        facts = await self._open.devices.facts_of(devices)
        sources = [each.task_source for each in input_sets(request.task_source)]
        asked = [
            replace(request, kind=kind, task_source=source)
            for kind in KINDS
            for source in sources or [request.task_source]
        ]
        dropped = 0
        for each in asked:
            dropped += await anyio.to_thread.run_sync(self._baselines.drop, each, facts[0])
        return dropped

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        require_models(request.task_source)
        verdict = await self._on_all_sets(request)
        outcome = accepted(verdict.outcome, verdict.notes, request.refuse)
        notes = [*verdict.notes, *self._keeping.notes()]
        return replace(verdict, outcome=cleaned(outcome), notes=notes)

    # --- steps

    async def _on_all_sets(self, request: EvaluationRequest) -> Verdict:
        judge = self._known if request.reuse else self._judged
        try:
            sets = input_sets(request.task_source)
        except BadInputSets as bad:
            raise SandboxFault(f"the task can't be judged: {bad}") from None
        if not sets:
            return await judge(request)
        judged: list[tuple[InputSet, Verdict]] = []
        for each in sets:
            verdict = await judge(replace(request, task_source=each.task_source))
            judged.append((each, verdict))
            if not isinstance(verdict.outcome, Correct):
                break
        return verdict_on_all(judged, request.root_ms)

    async def _known(self, request: EvaluationRequest) -> Verdict:
        limits, pool = self._settings.limits, self._open.devices
        devices = pool.of(request.device)
        isolation = await self._open.isolation()
        key = request, limits, (await pool.facts_of(devices))[0], isolation
        verdict = await anyio.to_thread.run_sync(self._verdicts.find, *key)
        if verdict is None:
            verdict = await self._judged(request)
            await anyio.to_thread.run_sync(self._verdicts.keep, *key, verdict)
        return verdict

    async def _judged(self, request: EvaluationRequest) -> Verdict:
        return await read(await self._evaluate(request, self._settings.limits), request)

    async def _eager(self, request: BaselineRequest) -> Baseline:
        pool = self._open.devices
        devices = pool.of(request.device)
        facts = await pool.facts_of(devices)
        job = job_for(request, devices[0], self._settings.limits)
        try:
            judged = await pool.judge(devices, facts, job, BuildFiles([], []), None)
        except VerifierDied as died:
            raise TaskUnusable(f"the reference's process died: {died}", died.output) from None
        except VerifierSilent as silent:
            raise TaskUnusable(f"the reference took too long: {silent}") from None
        found = eager_baseline(judged, facts[0], await self._open.isolation())
        notes = [*found.notes, *pool.sharing(judged.device)]
        return replace(found, notes=notes)

    async def _compiled(self, request: BaselineRequest) -> Baseline:
        eager = await self._baseline(replace(request, kind="eager", reuse=True))
        limits = self._settings.limits
        patient = replace(limits, call_s=max(limits.call_s, COMPILE_S), autopsy_s=0.0)
        verdict = await self._evaluate(as_candidate(request, eager), patient)
        if not wrong_by_tf32(request, verdict, eager):
            return compiled_baseline(request.kind, verdict, eager)
        without = await self._evaluate(as_candidate(request, eager, tf32=False), patient)
        if not isinstance(without.outcome, Correct):
            return compiled_baseline(request.kind, verdict, eager)
        return compiled_baseline(request.kind, without, eager, wrong=verdict)

    async def _evaluate(self, request: EvaluationRequest, limits: Limits) -> Verdict:
        return await Evaluation(self._open, limits, request).verdict()

    @property
    def _open(self) -> Opened:
        if self._opened is None:
            raise RuntimeError("a LocalSandbox works inside 'async with' only")
        return self._opened
