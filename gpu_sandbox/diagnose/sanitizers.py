"""Why a candidate crashed: one extra run of it alone, in a sanitizer of its device's backend."""

from __future__ import annotations

from collections.abc import Callable

import anyio.to_thread
import msgspec

from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.backends.protocol import Sanitizer
from gpu_sandbox.diagnose.tool_run import Body, Cut, ExtraRun


class Findings(msgspec.Struct, frozen=True):
    """A head and a line for each; ``cut`` says why there may be more."""

    lines: list[str] = []
    cut: Cut | None = None


async def findings(
    run: ExtraRun,
    body: Body,
    tool: Sanitizer,
    limit_s: float,
    others_wait: Callable[[], bool] | None = None,
) -> Findings:
    """Empty where the tool is missing or can't be run. Raises ``StillThere`` only."""
    command = await anyio.to_thread.run_sync(tool.command)
    if command is None or limit_s <= 0:
        return Findings()
    try:
        printed = await run.output(body, command, limit_s, others_wait)
    except SandboxFault:
        return Findings()
    lines = tool.findings(printed.text, body.files.record.lines)
    head = [f"{tool.title}, in an extra run of the candidate alone:"] if lines else []
    return Findings([*head, *lines], printed.cut)
