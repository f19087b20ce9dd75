"""One extra run of a candidate alone, in a fresh jailed interpreter that a tool starts.

Nothing is compared, and no verdict depends on what the tool prints.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import anyio
import msgspec

from events import outcomes
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.backends.known import backend_of, visible_variables
from gpu_sandbox.backends.protocol import ToolCommand
from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.confine.policy import may_connect
from gpu_sandbox.ipc.child_messages import Built, Examine
from gpu_sandbox.ipc.framing import PeerGone
from gpu_sandbox.supervise.control_line import controlled
from gpu_sandbox.supervise.isolation_policy import policy_for
from gpu_sandbox.supervise.zygote_client import ForkedProcess, Zygote
from gpu_sandbox.toolchain.environment import child_environment
from gpu_sandbox.toolchain.hf_cache import hub_readable, hub_variables

Cut = Literal["late", "others"]

_EVENTS = str(Path(outcomes.__file__).parent)  # a fresh interpreter imports it
_POLL_S = 0.05  # between two tests of whether others wait


class StillThere(Exception):
    """The kernel still holds a killed process of it, and its context."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate to run. ``files`` stay the caller's."""

    task_source: str
    candidate_source: str
    device: Device
    files: BuildFiles
    cores: tuple[int, ...]
    prebuilt: Path | None = None


class Printed(msgspec.Struct, frozen=True):
    """Output of tool and candidate; ``cut`` says why they were ended early."""

    text: str
    cut: Cut | None = None


class ExtraRun:
    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote

    async def can_meet(self) -> bool:
        """Whether a tool can connect to the program that it examines."""
        try:
            return may_connect((await self._zygote.survey()).layers)
        except SandboxFault:
            return False

    async def output(
        self,
        body: Body,
        command: ToolCommand,
        limit_s: float,
        others_wait: Callable[[], bool] | None = None,
    ) -> Printed:
        """Run until the limit, or until ``others_wait``. Raises ``StillThere`` and
        ``SandboxFault``."""
        backend = backend_of(body.device)
        home = self._zygote.run.new_home("autopsy")
        policy = policy_for(
            self._zygote.limits,
            home,
            body.cores,
            backend.nodes(),
            readable=(*hub_readable(), _EVENTS, *command.readable, *_places(body.prebuilt)),
        )
        # Shadow memory takes terabytes of addresses, as GPUs' drivers do.
        policy = msgspec.structs.replace(policy, address_space=False)
        variables = {**hub_variables(), **visible_variables(body.device)}
        if body.prebuilt is not None:
            variables["GPU_SANDBOX_PREBUILT"] = str(body.prebuilt)
        order = Examine(
            task=body.task_source,
            candidate=body.candidate_source,
            device=body.device.inside,
            tool=command.words,
            environment=command.environment,
            libraries=[] if command.anew else body.files.names,
        )
        fds = [] if command.anew else body.files.fds
        environment = child_environment(home, **variables)
        async with controlled(self._zygote, "autopsy", Built, home, policy, environment) as (
            process,
            line,
        ):
            cut: Cut | None = "late"
            try:
                with anyio.move_on_after(limit_s):
                    await line.send(order, *fds)
                    cut = await _ended(process, others_wait)
            except PeerGone:
                cut = None
            finally:
                await process.end()
            if process.stuck and backend.has_contexts:
                raise StillThere
            return Printed(process.output(), cut)


async def _ended(process: ForkedProcess, others_wait: Callable[[], bool] | None) -> Cut | None:
    """Polls, since other engines give no notice when they wait for a device."""
    while not process.ended.is_set():
        if others_wait is not None and others_wait():
            return "others"
        with anyio.move_on_after(_POLL_S if others_wait is not None else math.inf):
            await process.ended.wait()
    return None


def _places(prebuilt: Path | None) -> tuple[str, ...]:
    return () if prebuilt is None else (str(prebuilt),)


def unconnected(tools: str) -> str:
    """Why ``tools`` see nothing here."""
    return (
        f"{tools} have to connect to the candidate, which may connect to no socket here, without a"
        " mount namespace: see engine doctor"
    )
