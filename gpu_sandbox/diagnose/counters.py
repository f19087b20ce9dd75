"""Counters of a candidate's longest kernel, by one extra run."""

from __future__ import annotations

import re

from events.observations import Counters, Profile
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.backends.protocol import CounterTool
from gpu_sandbox.diagnose.tool_run import Body, ExtraRun


async def count(
    run: ExtraRun, body: Body, tool: CounterTool, profile: Profile, limit_s: float
) -> Counters | str:
    """Counters, or why there are none, in one line. Raises ``StillThere``."""
    refused = tool.refusal()
    names = [plain_name(row.name) for row in profile.rows if not _is_copy(row.name)]
    if refused or not names or not names[0]:
        return refused or "no kernel of its own to count in"
    try:
        printed = await run.output(body, tool.command(names[0]), limit_s)
    except SandboxFault as fault:
        return str(fault).splitlines()[0]
    return tool.read(printed.text, names[0])


def _is_copy(name: str) -> bool:
    return name.startswith(("Memcpy", "Memset"))


def plain_name(name: str) -> str:
    """``void ns::f<int>(float*)`` → ``f``, as tools name a function; else empty."""
    head = name.replace("(anonymous namespace)::", "").removeprefix("void ").strip()
    head = re.split(r"[<(]", head, maxsplit=1)[0].strip()
    last = head.split("::")[-1].split(" ")[-1]
    return last if re.fullmatch(r"\w+", last) else ""
