"""Whether a candidate gets an autopsy, in which sanitizers, and where that disturbs nobody."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager

from events.outcomes import Correct, Crashed, Outcome, WrongResult
from gpu_sandbox.autopsy import Tool, findings
from gpu_sandbox.builds import BuildFiles
from gpu_sandbox.compile_stage import Candidate
from gpu_sandbox.device_stage import Judged
from gpu_sandbox.devices import Device
from gpu_sandbox.extra_run import Body, StillThere
from gpu_sandbox.limits import Limits
from gpu_sandbox.loops import ToBeat
from gpu_sandbox.opened import Opened

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
) -> list[str] | None:
    """What sanitizers say of an outcome that they may explain: beside the compilers on the
    CPU, under the lease once more on a GPU. None where there was no autopsy."""
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
    )
    if not tools or limits.autopsy_s <= 0:
        return None
    if device.is_cuda and not await opened.extra_run.can_meet():
        return None
    pool, place = opened.compilers(device), _place(opened, judged)
    async with place as cores:
        if cores is None:
            return None
        body = Body(
            task_source=candidate.task_source,
            candidate_source=candidate.source,
            device=device,
            files=files,
            cores=cores,
            prebuilt=pool.prebuilt,
        )
        try:
            limit_s = limits.autopsy_s
            told = [await findings(opened.extra_run, body, tool, limit_s) for tool in tools]
            return [line for lines in told for line in lines]
        except StillThere:
            opened.devices.stuck(device)
            return []


def tools_for(
    outcome: Outcome, device: Device, *, built: bool, looks: int, suspect: bool
) -> tuple[Tool, ...]:
    """What may explain ``outcome``. ``built``: it has extensions; ``looks``: how many took
    place; ``suspect``: a correct one is to be looked at as well."""
    address: tuple[Tool, ...] = ("address",) if built else ()
    match outcome:
        case Correct() if suspect:
            return ("memcheck", "racecheck") if device.is_cuda else address
        case Crashed() if device.is_cuda:
            broken = _OF_THE_DEVICE.search(outcome.reason) or outcome.signal in _DEADLY
            return ("memcheck",) if broken else ()
        case Crashed() if outcome.signal in _DEADLY:
            return address
        case WrongResult() if device.is_cuda and (looks > 1 or _came_later(outcome)):
            return ("racecheck",)
        case _:
            return ()


def _came_later(wrong: WrongResult) -> bool:
    """Right at first, and wrong on inputs of the same kind: a race looks like that."""
    return wrong.trial is None or (wrong.trial > 1 and "random inputs" in wrong.reason)


def _place(opened: Opened, judged: Judged) -> AbstractAsyncContextManager[tuple[int, ...] | None]:
    """The cores to use, for as long as it is held; None where there is no time for it."""
    if judged.device.is_cuda:
        return opened.devices.once_more(judged)
    return opened.compilers(judged.device).place()
