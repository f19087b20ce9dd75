"""A job in one device's session: measured, tried again, and whose fault a breakdown is.

A verifier that dies, or in which the reference fails, costs its own candidate only: after the
second time the reference is judged as a candidate, which says whether the candidate, the task or
the device is to blame.
"""

from __future__ import annotations

from functools import partial

import msgspec

from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.devices.device_session import DeviceSession, JobResult
from gpu_sandbox.devices.recheck import ToBeat, beats, undisputed
from gpu_sandbox.devices.verifier_client import VerifierDied, VerifierSilent
from gpu_sandbox.ipc.verifier_messages import Job, TaskBroken

_TRIES = 2
_PROOF_BENCH_S = 0.5
_ITSELF = "\n\nclass ModelNew(Model):\n    pass\n"


class ReferenceFailed(Exception):
    """The reference failed in the verifier, beside a candidate that may have taken its memory."""


_BREAKDOWNS = (VerifierDied, VerifierSilent, ReferenceFailed)


class Judge:
    """Of all devices of a sandbox: what one learns of a task's inputs serves the next job."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left_out: dict[tuple[str, str], list[str]] = {}
        """Task and device → transformed inputs that no verifier survived."""

    async def results(
        self,
        session: DeviceSession,
        job: Job,
        libraries: list[int],
        to_beat: ToBeat | None,
        breakdowns: list[str],
    ) -> list[JobResult]:
        """Results of a job, tried again where the verifier breaks down; none where the candidate
        makes it break down. ``breakdowns`` gets the reasons."""
        try:
            while len(breakdowns) < _TRIES:
                left_out = self._left_out.get((job.task_source, job.device), [])
                job = msgspec.structs.replace(job, leave_out=left_out)
                try:
                    return await self._measured(session, job, libraries, to_beat)
                except _BREAKDOWNS as breakdown:
                    if self._leaves_out(job, breakdown):
                        continue
                    if job.mode == "baseline" or session.unfit:
                        raise
                    breakdowns.append(str(breakdown))
            await self._prove(session, job)
            return []
        except (*_BREAKDOWNS, SandboxFault) as fault:
            if session.unfit:
                raise SandboxFault(f"{session.device.name}: {session.unfit}") from fault
            raise

    def _leaves_out(self, job: Job, breakdown: Exception) -> bool:
        """Whether to go on without the inputs that it broke down on. A GPU's context does not
        outlive a failed assertion in a kernel."""
        if not isinstance(breakdown, VerifierDied | VerifierSilent):
            return False
        if not breakdown.trying or breakdown.trying in job.leave_out:
            return False
        self._left_out[job.task_source, job.device] = [*job.leave_out, breakdown.trying]
        return True

    async def _measured(
        self, session: DeviceSession, job: Job, libraries: list[int], to_beat: ToBeat | None
    ) -> list[JobResult]:
        limit_s = max(self._limits.device_s, 4 * job.call_s)
        if job.mode == "baseline":  # no worker: nothing but the reference can be slow
            limit_s = 4 * job.call_s
        measure = partial(self._run, session, libraries=libraries, limit_s=limit_s)
        first = await undisputed(measure, job)
        if to_beat is None or not job.protocol.recheck or not beats(first, to_beat):
            return [first]
        again = msgspec.structs.replace(job, observe=[])  # observed already
        return [first, await undisputed(partial(measure, afresh=True), again)]

    async def _run(
        self,
        session: DeviceSession,
        job: Job,
        libraries: list[int],
        limit_s: float,
        *,
        afresh: bool = False,
    ) -> JobResult:
        """Raises ``ReferenceFailed`` beside what a session raises."""
        result = await session.run(job, libraries, limit_s, afresh=afresh)
        finding = result.report.finding
        if isinstance(finding, TaskBroken) and job.mode == "evaluate":
            raise ReferenceFailed(f"{finding.reason}\n{finding.detail}".strip())
        return result

    async def _prove(self, session: DeviceSession, job: Job) -> None:
        """Judge the reference as its own candidate. Raises ``SandboxFault`` that blames the task if
        it fails, or the verifier errs; if the verifier dies of it, the device is unfit, too."""
        job = msgspec.structs.replace(
            job,
            candidate_source=job.task_source + _ITSELF,
            libraries=[],
            bench_s=min(job.bench_s, _PROOF_BENCH_S),
        )
        try:
            await self._run(session, job, [], self._limits.device_s)
        except ReferenceFailed as failure:
            raise SandboxFault(f"the task itself failed: {failure}") from None
        except (VerifierDied, VerifierSilent, SandboxFault) as fault:
            if isinstance(fault, VerifierDied) and fault.mistake:
                raise SandboxFault(f"the task can't be judged: {fault.mistake}") from None
            first_line = str(fault).splitlines()[0]
            session.find_unfit(f"the reference can't be judged on it: {first_line}")
            raise
