"""Exit codes, and the error that carries one with a message for the user."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Exit", "Failure"]


class Exit(IntEnum):
    """What a command's exit code means."""

    DONE = 0
    INTERNAL = 1
    USAGE = 2
    MISSING = 3
    """No compiler, no key, no device, no disk space: something outside has to change."""
    NOT_FASTER = 4
    """Finished without a correct kernel faster than the reference."""
    DIFFERENT = 5
    """Replay or verification found a difference."""
    PAUSED = 75
    INTERRUPTED = 130


class Failure(Exception):
    """Ends the command: what failed, where, and what to do next, in one or a few lines."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code
