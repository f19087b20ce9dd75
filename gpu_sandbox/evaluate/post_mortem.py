"""Whether a candidate gets an autopsy, in which sanitizers, and when nothing else is disturbed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from events.outcomes import Correct, Crashed, Outcome, WrongResult
from gpu_sandbox.api.progress import say
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.backends.protocol import Sanitizer, Tools
from gpu_sandbox.devices.recheck import ToBeat
from gpu_sandbox.diagnose.sanitizers import findings
from gpu_sandbox.diagnose.tool_run import StillThere
from gpu_sandbox.evaluate.judged_candidate import JudgedCandidate

_DEADLY = (4, 6, 7, 8, 11)
"""SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV."""


async def examined(
    case: JudgedCandidate, outcome: Outcome, to_beat: ToBeat | None
) -> list[str] | None:
    """What sanitizers say of an outcome that they may explain; None without an autopsy.

    It runs under the lease once more, or beside the compilers where it needs no device. A note
    says why one that was due was left out or broken off.
    """
    opened, device, limits, request = case.opened, case.device, case.limits, case.request
    kit = backend_of(device).tools
    best = isinstance(outcome, Correct) and (
        to_beat is None or 1 / outcome.speedup_by(to_beat.score) < to_beat.ratio
    )
    tools = tools_for(
        outcome,
        kit,
        built=bool(case.files.names),
        rechecked=len(case.judged.results) > 1,
        suspect=limits.sanitize and best,
        wrong=request.autopsy_of_wrong,
    )
    if not tools or limits.autopsy_s <= 0:
        return None
    if kit.connect and not await opened.extra_run.can_meet():
        return None
    async with _place(case) as cores:
        if cores is None:
            if request.autopsy_yields and device.name not in opened.devices.quarantined:
                case.notes.append(f"no autopsy: {_others(kit)}")
            return None
        say("run once more, in a sanitizer")
        try:
            return await _findings(case, tools, cores)
        except StillThere:
            opened.devices.stuck(device)
            return []


async def _findings(
    case: JudgedCandidate, tools: tuple[Sanitizer, ...], cores: tuple[int, ...]
) -> list[str]:
    """Raises ``StillThere``."""
    opened, limit_s, kit = case.opened, case.limits.autopsy_s, backend_of(case.device).tools
    waited_for = _waited_for(case) if case.request.autopsy_yields else None
    why = {"late": f"{limit_s:g} s were over", "others": _others(kit)}
    lines: list[str] = []
    for tool in tools:
        found = await findings(opened.extra_run, case.body(cores), tool, limit_s, waited_for)
        lines += found.lines
        if found.cut is not None:
            case.notes.append(f"the autopsy ({tool.name}) was broken off: {why[found.cut]}")
        if found.cut == "others":
            break
    return lines


def tools_for(
    outcome: Outcome, kit: Tools, *, built: bool, rechecked: bool, suspect: bool, wrong: bool = True
) -> tuple[Sanitizer, ...]:
    """The sanitizers of ``kit`` that may explain ``outcome``. ``built``: it has extensions;
    ``suspect``, ``wrong``: correct or wrong ones are examined, too."""
    if kit.built_only and not built:
        return ()
    races = () if kit.races is None else (kit.races,)
    match outcome:
        case Correct() if suspect:
            return (kit.memory, *races)
        case Crashed() if outcome.signal in _DEADLY or _is_explained(kit, outcome):
            return (kit.memory,)
        case WrongResult() if wrong and (rechecked or _came_later(outcome)):
            return races
        case _:
            return ()


def _is_explained(kit: Tools, crashed: Crashed) -> bool:
    return kit.crashes is not None and kit.crashes.search(crashed.reason) is not None


def _came_later(wrong: WrongResult) -> bool:
    """Right at first, and wrong on inputs of the same kind: a race looks like that."""
    return wrong.trial is None or (wrong.trial > 1 and "random inputs" in wrong.reason)


@asynccontextmanager
async def _place(case: JudgedCandidate) -> AsyncIterator[tuple[int, ...] | None]:
    """A place to run, as its cores; None where others wait for it."""
    opened, judged, pool = case.opened, case.judged, case.opened.compilers(case.device)
    under_lease = backend_of(case.device).tools.under_lease
    if not case.request.autopsy_yields:
        async with opened.devices.lease_again(judged) if under_lease else pool.place() as cores:
            yield cores
        return
    async with opened.one_autopsy:
        if under_lease:
            async with opened.devices.while_idle(judged) as cores:
                yield cores
        elif _waited_for(case)():
            yield None
        else:
            async with pool.place() as cores:
                yield None if _waited_for(case)() else cores


def _waited_for(case: JudgedCandidate) -> Callable[[], bool]:
    """Whether others wait for the device, or, beside the compilers, for a place or the cores."""
    pool, devices = case.opened.compilers(case.device), case.opened.devices
    leases = devices.leases
    if backend_of(case.device).tools.under_lease:
        return leases.others_wait
    shared = bool(devices.sharing(case.device))
    return lambda: pool.waiting > 0 or (shared and leases.waiting + leases.holding > 0)


def _others(kit: Tools) -> str:
    return f"others waited for {'the device' if kit.under_lease else 'the compilers'}"
