"""Observations of a judged candidate: roofline and profile. They do not change its verdict.

They take no longer than a share of the time that judging took; a failure is a line that says so.
"""

from __future__ import annotations

import time

from events.observations import Observations, Profile, SectionName, Work
from gpu_sandbox.ipc.verifier_messages import (
    Finding,
    Forged,
    Job,
    WorkerDied,
    WorkerFailed,
    WorkerSilent,
)
from gpu_sandbox.ipc.worker_messages import ProfileCalls, Profiled
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.work_estimate import count_work
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended

_MAX_CALLS = 10
_CALLS_SHARE = 0.2  # of the time there is: for the calls without a profiler. The rest is for that
_works: dict[str, Work | str] = {}  # by task; a text says why it could not be counted


def observe(
    task: Task, first: Case, peer: Peer, job: Job, candidate_ms: float, spent_s: float
) -> Observations:
    """Observe what the job asks for. ``candidate_ms``: of a call; ``spent_s``: what judging took.
    Never raises what a candidate or a task can cause."""
    until = time.monotonic() + job.observe_share * spent_s
    missing: dict[SectionName, str] = {}
    work = profile = None
    if "roofline" in job.observe:  # first: a candidate may use up the time there is
        counted = _counted(task, first, job, until - time.monotonic())
        if isinstance(counted, str):
            missing["roofline"] = counted
        else:
            work = counted
    if "profile" in job.observe or "counters" in job.observe:
        found = _profiled(peer, candidate_ms / 1e3, until - time.monotonic())
        if isinstance(found, str):
            missing["profile"] = found
        else:
            profile = found
    return Observations(work=work, profile=profile, missing=missing)


def _profiled(peer: Peer, each_s: float, limit_s: float) -> Profile | str:
    """Profile some calls, or say why not."""
    each_s = max(each_s, 1e-6)
    calls = min(_MAX_CALLS, int(_CALLS_SHARE * limit_s / each_s))
    if calls < 1:
        return f"a call takes {each_s:.2g} s, too long for its share of the time, {limit_s:.2g} s"
    try:
        peer.send(ProfileCalls(calls=calls), "profile")
        profile = peer.take(Profiled, "profile", limit_s).profile
    except Ended as ended:
        return _why(ended.finding)
    return profile if profile.rows else "the profiler saw nothing"


def _why(finding: Finding) -> str:
    match finding:
        case WorkerSilent(limit_s=limit_s):
            return f"it was not done in {limit_s:.2g} s, its share of the time"
        case WorkerDied():
            return "its worker had ended"
        case WorkerFailed(message=message):
            return f"it raised under the profiler: {message}"
        case Forged():
            return "its worker's answer is no profile"
        case _:
            return f"it ended as {type(finding).__name__}"


def _counted(task: Task, first: Case, job: Job, limit_s: float) -> Work | str:
    """Count the work of a forward, or say why not; once for each task."""
    key = job.task_source
    if key not in _works:
        if task.forward_s > limit_s:
            return f"one more call of the reference takes {task.forward_s:.2g} s: not counted"
        try:
            _works[key] = count_work(task, first)
        except Exception as error:
            said = (str(error).splitlines() or [""])[0]
            _works[key] = f"the reference can't be counted: {type(error).__name__}: {said}"
    return _works[key]
