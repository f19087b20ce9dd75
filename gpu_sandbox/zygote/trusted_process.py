"""Trusted children of the zygote: killed and reaped."""

from __future__ import annotations

import contextlib
import os
import select
import signal

from gpu_sandbox.confine import Status
from gpu_sandbox.confine.jail_init import KILL_S


class TrustedProcess:
    """A child of our own: in no jail, but surely ended, with the methods of a ``Jail``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fd = os.pidfd_open(pid)
        self.stuck = False

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def end(self, *, overdue: bool = False) -> Status:
        """``overdue``: it was killed as long ago as any process needs to end."""
        self.stop()
        os.close(self.fd)
        code = reaped(self.pid, 0.0 if overdue else KILL_S)
        if code is None:
            self.stuck = True
            return Status()
        return Status(code=code) if code >= 0 else Status(signal=-code)


def reaped(pid: int, within_s: float) -> int | None:
    """The exit code of a child that was killed; None if the kernel does not let go of it."""
    fd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    try:
        if not poll.poll(within_s * 1000):
            return None
    finally:
        os.close(fd)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)
