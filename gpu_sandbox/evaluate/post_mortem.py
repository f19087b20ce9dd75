"""Whether a candidate gets an autopsy, in which sanitizers, and where that disturbs nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from events.outcomes import Correct, Crashed, Outcome, WrongResult
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import EvaluationRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.api.progress import say
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.backends.protocol import Sanitizer, Tools
from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.builds.compile_pool import Candidate
from gpu_sandbox.devices.device_pool import Judged
from gpu_sandbox.devices.second_look import ToBeat
from gpu_sandbox.diagnose.sanitizers import findings
from gpu_sandbox.diagnose.tool_run import Body, StillThere
from gpu_sandbox.evaluate.resources import Opened

__all__ = ["examined", "tools_for"]

_DEADLY = (4, 6, 7, 8, 11)
"""SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV."""


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
    """What sanitizers say of an outcome that they may explain: under the lease once more, or beside
    the compilers where they need no device. None where there was no autopsy; ``notes`` say of
    one that was asked for why, and of one that was broken off that it was."""
    device = judged.device
    kit = backend_of(device).tools
    best = isinstance(outcome, Correct) and (
        to_beat is None or 1 / outcome.speedup_by(to_beat.score) < to_beat.ratio
    )
    tools = tools_for(
        outcome,
        kit,
        built=bool(files.names),
        looks=len(judged.looks.concluded),
        suspect=limits.sanitize and best,
        wrong=request.autopsy_of_wrong,
    )
    if not tools or limits.autopsy_s <= 0:
        return None
    if kit.connect and not await opened.extra_run.can_meet():
        return None
    pool, yields = opened.compilers(device), request.autopsy_yields
    async with _place(opened, judged, yields=yields) as cores:
        if cores is None:
            if yields and device.name not in opened.devices.quarantined:
                notes.append(f"no autopsy: {_others(kit)}")
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
                    why = {"late": f"{limits.autopsy_s:g} s were over", "others": _others(kit)}
                    notes.append(f"the autopsy ({tool.name}) was broken off: {why[found.cut]}")
                if found.cut == "others":
                    break
            return lines
        except StillThere:
            opened.devices.stuck(device)
            return []


def tools_for(
    outcome: Outcome, kit: Tools, *, built: bool, looks: int, suspect: bool, wrong: bool = True
) -> tuple[Sanitizer, ...]:
    """Those of ``kit`` that may explain ``outcome``. ``built``: it has extensions; ``looks``: how
    many took place; ``suspect``, ``wrong``: a correct or a wrong one is to be looked at as well."""
    if kit.built_only and not built:
        return ()
    races = () if kit.races is None else (kit.races,)
    match outcome:
        case Correct() if suspect:
            return (kit.memory, *races)
        case Crashed() if outcome.signal in _DEADLY or _is_explained(kit, outcome):
            return (kit.memory,)
        case WrongResult() if wrong and (looks > 1 or _came_later(outcome)):
            return races
        case _:
            return ()


def _is_explained(kit: Tools, crashed: Crashed) -> bool:
    return kit.crashes is not None and kit.crashes.search(crashed.reason) is not None


def _came_later(wrong: WrongResult) -> bool:
    """Right at first, and wrong on inputs of the same kind: a race looks like that."""
    return wrong.trial is None or (wrong.trial > 1 and "random inputs" in wrong.reason)


@asynccontextmanager
async def _place(
    opened: Opened, judged: Judged, *, yields: bool
) -> AsyncIterator[tuple[int, ...] | None]:
    """The cores to use, for as long as it is held; None where there is no time for it."""
    device, pool = judged.device, opened.compilers(judged.device)
    under_lease = backend_of(device).tools.under_lease
    if not yields:
        async with opened.devices.once_more(judged) if under_lease else pool.place() as cores:
            yield cores
        return
    async with opened.one_autopsy:
        if under_lease:
            async with opened.devices.while_idle(judged) as cores:
                yield cores
        elif _waited_for(opened, device)():
            yield None
        else:
            async with pool.place() as cores:
                yield None if _waited_for(opened, device)() else cores


def _waited_for(opened: Opened, device: Device) -> Callable[[], bool]:
    """Whether others wait for the place of an autopsy: for the device, or for one to compile in.
    There, where the same cores time, also whether anything is timed."""
    pool, leases = opened.compilers(device), opened.devices.leases
    if backend_of(device).tools.under_lease:
        return leases.others_wait
    shared = bool(opened.devices.sharing(device))
    return lambda: pool.waiting > 0 or (shared and leases.waiting + leases.holding > 0)


def _others(kit: Tools) -> str:
    return f"others waited for {'the device' if kit.under_lease else 'the compilers'}"
