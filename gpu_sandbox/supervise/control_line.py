"""Children of the zygote that are spoken with over one socket, their ``control``."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.confine import Policy
from gpu_sandbox.ipc.framing import BadFrame, Line, PeerGone
from gpu_sandbox.ipc.zygote_messages import Role
from gpu_sandbox.supervise.run_directory import remove
from gpu_sandbox.supervise.zygote_client import ForkedProcess, Zygote
from gpu_sandbox.toolchain.environment import child_environment

_Message = TypeVar("_Message")


@asynccontextmanager
async def controlled(
    zygote: Zygote,
    role: Role,
    answers: type[_Message],
    directory: Path,
    policy: Policy | None,
    environment: dict[str, str],
    arguments: dict[str, Any] | None = None,
    fds: int = 0,
) -> AsyncIterator[tuple[ForkedProcess, Line[_Message]]]:
    """A child and the line to it. At the end it is ended, and its ``directory`` removed.

    ``answers`` is the type of its messages, ``fds`` the most descriptors that come with them.
    Raises ``SandboxFault`` where it can't be started.
    """
    ours, theirs = socket.socketpair()
    line: Line[_Message] = Line(ours, answers, fds=fds)
    try:
        with theirs:
            process = await zygote.spawn(
                role,
                arguments or {},
                {"control": theirs},
                environment=environment,
                directory=directory,
                policy=policy,
            )
        try:
            yield process, line
        finally:
            await process.end()
    finally:
        line.close()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove, directory)


async def ask(
    zygote: Zygote,
    role: Role,
    answer: type[_Message],
    arguments: dict[str, Any],
    variables: dict[str, str],
    within_s: float,
) -> _Message:
    """The one answer of a trusted child. Raises ``SandboxFault`` with its last words."""
    home = zygote.run.new_home(role)
    environment = child_environment(home, **variables)
    async with controlled(zygote, role, answer, home, None, environment, arguments=arguments) as (
        process,
        line,
    ):
        try:
            with anyio.fail_after(within_s):
                return await line.receive()
        except (PeerGone, BadFrame, TimeoutError):
            raise SandboxFault(f"{role}: no answer ({await process.last_words()})") from None
