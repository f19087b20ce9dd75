"""Mistakes of a task's file."""

from __future__ import annotations


class Broken(Exception):
    """The task can't be evaluated."""

    def __init__(self, reason: str, detail: str = "", *, memory: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail
        self.memory = memory
        """Whether there was too little: that may be a candidate's doing."""
