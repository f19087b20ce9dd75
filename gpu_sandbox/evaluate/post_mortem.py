"""Whether a candidate gets an autopsy, in which sanitizers, and where that disturbs nobody."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from events.outcomes import Correct, Crashed, Outcome, WrongResult
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import EvaluationRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.api.progress import say
from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.builds.compile_pool import Candidate
from gpu_sandbox.devices.device_pool import Judged
from gpu_sandbox.devices.second_look import ToBeat
from gpu_sandbox.diagnose.sanitizers import Tool, findings
from gpu_sandbox.diagnose.tool_run import Body, StillThere
from gpu_sandbox.evaluate.resources import Opened

__all__ = ["examined", "tools_for"]

_DEADLY = (4, 6, 7, 8, 11)
"""SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV."""
_OF_THE_DEVICE = re.compile(
    r"illegal memory access|misaligned address|unspecified launch failure|illegal instruction"
    r"|illegal address|device-side assert|hardware stack error|invalid program counter"
    r"|shared address space"  # an address that happens to lie where shared or local memory does
)


async def examined(
    opened: Opened,
    limits: Limits,
    candidate: Candidate,
    files: BuildFiles,
    judged: Judged,
    outcome: Outcome,
    to_beat: ToBeat | None,
    *,
    request: EvaluationRequest,
    notes: list[str],
) -> list[str] | None:
    """What sanitizers say of an outcome that they may explain: beside the compilers on the
    CPU, under the lease once more on a GPU. None where there was no autopsy; ``notes`` say of
    one that was asked for why, and of one that was broken off that it was."""
    device = judged.device
    best = isinstance(outcome, Correct) and (
        to_beat is None or 1 / outcome.speedup_by(to_beat.score) < to_beat.ratio
    )
    tools = tools_for(
        outcome,
        device,
        built=bool(files.names),
        looks=len(judged.looks.concluded),
        suspect=limits.sanitize and best,
        wrong=request.autopsy_of_wrong,
    )
    if not tools or limits.autopsy_s <= 0:
        return None
    if device.is_cuda and not await opened.extra_run.can_meet():
        return None
    pool, yields = opened.compilers(device), request.autopsy_yields
    async with _place(opened, judged, yields=yields) as cores:
        if cores is None:
            if yields and device.name not in opened.devices.quarantined:
                notes.append(f"no autopsy: {_others(device)}")
            return None
        say("run once more, in a sanitizer")
        body = Body(
            task_source=candidate.task_source,
            candidate_source=candidate.source,
            device=device,
            files=files,
            cores=cores,
            prebuilt=pool.prebuilt,
        )
        try:
            waited_for = _waited_for(opened, device) if yields else None
            lines: list[str] = []
            for tool in tools:
                found = await findings(opened.extra_run, body, tool, limits.autopsy_s, waited_for)
                lines += found.lines
                if found.cut is not None:
                    why = {"late": f"{limits.autopsy_s:g} s were over", "others": _others(device)}
                    notes.append(f"the autopsy ({tool}) was broken off: {why[found.cut]}")
                if found.cut == "others":
                    break
            return lines
        except StillThere:
            opened.devices.stuck(device)
            return []


def tools_for(
    outcome: Outcome, device: Device, *, built: bool, looks: int, suspect: bool, wrong: bool = True
) -> tuple[Tool, ...]:
    """What may explain ``outcome``. ``built``: it has extensions; ``looks``: how many took
    place; ``suspect``, ``wrong``: a correct or a wrong one is to be looked at as well."""
    address: tuple[Tool, ...] = ("address",) if built else ()
    match outcome:
        case Correct() if suspect:
            return ("memcheck", "racecheck") if device.is_cuda else address
        case Crashed() if device.is_cuda:
            broken = _OF_THE_DEVICE.search(outcome.reason) or outcome.signal in _DEADLY
            return ("memcheck",) if broken else ()
        case Crashed() if outcome.signal in _DEADLY:
            return address
        case WrongResult() if wrong and device.is_cuda:
            return ("racecheck",) if looks > 1 or _came_later(outcome) else ()
        case _:
            return ()


def _came_later(wrong: WrongResult) -> bool:
    """Right at first, and wrong on inputs of the same kind: a race looks like that."""
    return wrong.trial is None or (wrong.trial > 1 and "random inputs" in wrong.reason)


@asynccontextmanager
async def _place(
    opened: Opened, judged: Judged, *, yields: bool
) -> AsyncIterator[tuple[int, ...] | None]:
    """The cores to use, for as long as it is held; None where there is no time for it."""
    device, pool = judged.device, opened.compilers(judged.device)
    if not yields:
        async with opened.devices.once_more(judged) if device.is_cuda else pool.place() as cores:
            yield cores
        return
    async with opened.one_autopsy:
        if device.is_cuda:
            async with opened.devices.while_idle(judged) as cores:
                yield cores
        elif _waited_for(opened, device)():
            yield None
        else:
            async with pool.place() as cores:
                yield None if _waited_for(opened, device)() else cores


def _waited_for(opened: Opened, device: Device) -> Callable[[], bool]:
    """Whether others wait for the place of an autopsy. On the CPU that is one to compile in; and
    where the same cores time, whether anything is timed."""
    pool, leases = opened.compilers(device), opened.devices.leases
    if device.is_cuda:
        return leases.others_wait
    shared = bool(opened.devices.sharing(device))
    return lambda: pool.waiting > 0 or (shared and leases.waiting + leases.holding > 0)


def _others(device: Device) -> str:
    return f"others waited for {'the device' if device.is_cuda else 'the compilers'}"
