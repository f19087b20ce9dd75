"""What a correct candidate's observations lack when its verdict is there: the device's
ceilings, which are probed once, and counters, which take a run of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from events.observations import Ceilings, Counters, Observations, SectionName
from events.outcomes import BUSY_MACHINE, Correct
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.builds.compile_pool import Candidate
from gpu_sandbox.devices.device_pool import Judged
from gpu_sandbox.devices.device_session import STUCK
from gpu_sandbox.devices.peak_rates import NoCeilings
from gpu_sandbox.diagnose.counters import count
from gpu_sandbox.diagnose.tool_run import Body, StillThere, unconnected
from gpu_sandbox.evaluate.resources import Opened
from gpu_sandbox.evaluate.speed_of_light import Load, Reach, beaten

__all__ = ["completed", "reach_after"]


async def completed(
    opened: Opened,
    limits: Limits,
    candidate: Candidate,
    files: BuildFiles,
    judged: Judged,
    seen: Observations,
    wanted: tuple[SectionName, ...],
    notes: list[str],
) -> Observations:
    """``seen`` with ceilings, if it has work, and counters, if they are ``wanted``. Ceilings of a
    busy machine would mislead whoever reads them: rates stand without, and ``notes`` say why."""
    missing = dict(seen.missing)
    if seen.work is not None:
        ceilings = await _ceilings(opened, judged)
        if isinstance(ceilings, Ceilings):
            seen = msgspec.structs.replace(seen, ceilings=ceilings)
        elif ceilings.busy:
            notes.append(f"{BUSY_MACHINE}: no ceilings are shown: {ceilings.reason}")
        else:
            missing["roofline"] = f"no ceilings: {ceilings.reason}"
    if "counters" in wanted:
        counters = await _counters(opened, limits, candidate, files, judged, seen)
        if isinstance(counters, Counters):
            seen = msgspec.structs.replace(seen, counters=counters)
        else:
            missing["counters"] = counters
    return msgspec.structs.replace(seen, missing=missing)


async def reach_after(
    opened: Opened,
    judged: Judged,
    facts: dict[str, Any],
    outcome: Correct,
    load: Load,
    notes: list[str],
) -> Reach:
    """How fast the device is known to be after this candidate: of what was just beaten, ceilings
    are measured again, once a sandbox and device."""
    device = judged.device
    reach = opened.reach(device, facts)
    if not beaten(outcome, load, reach) or not opened.ceilings.may_doubt(device):
        return reach
    async with opened.devices.once_more(judged, whoever_waits=True) as cores:
        if cores is not None and opened.ceilings.may_doubt(device):  # nobody did meanwhile
            notes.append(await opened.ceilings.probe_again(device, cores))
    return opened.reach(device, facts)


async def _ceilings(opened: Opened, judged: Judged) -> Ceilings | NoCeilings:
    known = opened.ceilings.find(judged.device, opened.devices.timing(judged.device))
    if known is not None:
        return known
    async with opened.devices.once_more(judged, whoever_waits=True) as cores:
        if cores is None:
            return NoCeilings("the device is quarantined")
        return await opened.ceilings.probe(judged.device, cores)


async def _counters(
    opened: Opened,
    limits: Limits,
    candidate: Candidate,
    files: BuildFiles,
    judged: Judged,
    seen: Observations,
) -> Counters | str:
    tools = backend_of(judged.device).tools
    if tools.counters is None:
        return "Nsight Compute counts on NVIDIA GPUs only"
    if seen.profile is None:
        return "no profile says which kernel is the longest"
    if tools.connect and not await opened.extra_run.can_meet():
        return unconnected(tools.connect)
    prebuilt: Path | None = opened.compilers(judged.device).prebuilt
    async with opened.devices.once_more(judged) as cores:
        if cores is None:
            return "others waited for the device"
        body = Body(
            task_source=candidate.task_source,
            candidate_source=candidate.source,
            device=judged.device,
            files=files,
            cores=cores,
            prebuilt=prebuilt,
        )
        try:
            return await count(
                opened.extra_run, body, tools.counters, seen.profile, limits.counters_s
            )
        except StillThere:
            opened.devices.stuck(judged.device)
            return STUCK
