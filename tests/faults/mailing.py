"""A search by mail to be killed: the real loop and log, a mailbox on disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import anyio

from agents.clients.mailbox import MailboxClient
from agents.clients.port import Look, Reply, Request
from tests.engine.mail_runs import config, step

__all__ = ["search"]


class _Dying(MailboxClient):
    """Its process is killed once a request is written, or once a reply is found."""

    def __init__(self, box: Path, point: str) -> None:
        super().__init__(box)
        self._point = point

    async def post(self, requests: Sequence[Request]) -> None:
        await super().post(requests)
        if self._point == "written":
            os.kill(os.getpid(), signal.SIGKILL)

    async def look(self, requests: Sequence[Request]) -> Look:
        look = await super().look(requests)
        if self._point == "found" and any(isinstance(r, Reply) for r in look.arrived.values()):
            os.kill(os.getpid(), signal.SIGKILL)
        return look


def search(path: Path, box: Path, point: str, backend: str) -> None:
    """Run as a process: begin the search, or go on with it, to the kill."""
    anyio.run(step, path, _Dying(box, point), config(attempts=1), backend=backend)
