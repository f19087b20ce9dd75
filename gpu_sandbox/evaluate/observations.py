"""Observations that a verdict's job does not make: peak rates, probed once a device, and counters,
which take an extra run."""

from __future__ import annotations

import msgspec

from events.observations import Ceilings, Counters, Observations
from events.outcomes import BUSY_MACHINE, Correct
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.devices.device_session import STUCK
from gpu_sandbox.devices.peak_rates import NoCeilings
from gpu_sandbox.diagnose.counters import count
from gpu_sandbox.diagnose.tool_run import StillThere, unconnected
from gpu_sandbox.evaluate.judged_candidate import JudgedCandidate
from gpu_sandbox.evaluate.speed_of_light import Load, Reach, beaten


async def completed(case: JudgedCandidate, seen: Observations) -> Observations:
    """``seen`` with peak rates, if it has work, and counters, if they were asked for.

    Rates of a busy machine would mislead: a roofline stands without them, and a note says why.
    """
    missing = dict(seen.missing)
    if seen.work is not None:
        ceilings = await _ceilings(case)
        if isinstance(ceilings, Ceilings):
            seen = msgspec.structs.replace(seen, ceilings=ceilings)
        elif ceilings.busy:
            case.notes.append(f"{BUSY_MACHINE}: no ceilings are shown: {ceilings.reason}")
        else:
            missing["roofline"] = f"no ceilings: {ceilings.reason}"
    if "counters" in case.request.observe:
        counters = await _counters(case, seen)
        if isinstance(counters, Counters):
            seen = msgspec.structs.replace(seen, counters=counters)
        else:
            missing["counters"] = counters
    return msgspec.structs.replace(seen, missing=missing)


async def reach_after(case: JudgedCandidate, outcome: Correct, load: Load) -> Reach:
    """How fast the device is known to be after this candidate. A peak rate that it beat is
    measured again, once a sandbox and device."""
    opened, device, facts = case.opened, case.device, case.candidate.facts
    reach = opened.reach(device, facts)
    if not beaten(outcome, load, reach) or not opened.ceilings.may_doubt(device):
        return reach
    async with opened.devices.lease_again(case.judged, even_if_others_wait=True) as cores:
        if cores is not None and opened.ceilings.may_doubt(device):  # not doubted meanwhile
            case.notes.append(await opened.ceilings.probe_again(device, cores))
    return opened.reach(device, facts)


async def _ceilings(case: JudgedCandidate) -> Ceilings | NoCeilings:
    opened, device = case.opened, case.device
    known = opened.ceilings.find(device, opened.devices.timing(device))
    if known is not None:
        return known
    async with opened.devices.lease_again(case.judged, even_if_others_wait=True) as cores:
        if cores is None:
            return NoCeilings("the device is quarantined")
        return await opened.ceilings.probe(device, cores)


async def _counters(case: JudgedCandidate, seen: Observations) -> Counters | str:
    """Or why there are none."""
    opened, tools = case.opened, backend_of(case.device).tools
    if tools.counters is None:
        return "Nsight Compute counts on NVIDIA GPUs only"
    if seen.profile is None:
        return "no profile says which kernel is the longest"
    if tools.connect and not await opened.extra_run.can_meet():
        return unconnected(tools.connect)
    async with opened.devices.lease_again(case.judged) as cores:
        if cores is None:
            return "others waited for the device"
        body, limit_s = case.body(cores), case.limits.counters_s
        try:
            return await count(opened.extra_run, body, tools.counters, seen.profile, limit_s)
        except StillThere:
            opened.devices.stuck(case.device)
            return STUCK
