"""One extra run of a candidate alone, in a fresh interpreter that a tool starts.

Confined like any other, with a time limit of its own. Nothing is compared: what counts is
what the tool prints, and that is never what a verdict depends on.
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

_EVENTS = str(Path(outcomes.__file__).parent)
"""A fresh interpreter imports it anew, where other children were forked with it."""
_GLANCE_S = 0.05
"""Between two looks at whether others wait: evaluations take seconds, and so do extra runs."""


class StillThere(Exception):
    """A process of it was killed, and the kernel does not let go of it, nor of its context."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. ``files`` are the build's, and stay the caller's."""

    task_source: str
    candidate_source: str
    device: Device
    files: BuildFiles
    cores: tuple[int, ...]
    prebuilt: Path | None = None


class Printed(msgspec.Struct, frozen=True):
    """What tool and candidate printed; ``cut`` says why they were ended before their time."""

    text: str
    cut: Cut | None = None


class ExtraRun:
    """One candidate at a time for each caller; keeps nothing between."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote

    async def can_meet(self) -> bool:
        """Whether a tool and the program that it looks into can connect to each other there."""
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
        """What tool and candidate print within the limit, and until ``others_wait``. Raises
        ``StillThere``, and ``SandboxFault`` where it can't be started."""
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
    """Nobody tells us when another engine begins to wait for a device."""
    while not process.ended.is_set():
        if others_wait is not None and others_wait():
            return "others"
        with anyio.move_on_after(_GLANCE_S if others_wait is not None else math.inf):
            await process.ended.wait()
    return None


def _places(prebuilt: Path | None) -> tuple[str, ...]:
    return () if prebuilt is None else (str(prebuilt),)


def unconnected(tools: str) -> str:
    """Why ``tools`` see nothing here."""
    return (
        f"{tools} did not get to the program that they look into without a mount namespace,"
        " where no candidate may connect to a socket: see engine doctor"
    )
