"""What a run has handed over for a later reply, what it still waits for, and what it took."""

from __future__ import annotations

from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    Body,
    ReplyDeferred,
    ReplyFile,
    ReplyNotTaken,
    RunForked,
    RunResumed,
)

__all__ = ["Mail"]


class Mail:
    """A fold over one run's bodies that owns mutable state."""

    def __init__(self) -> None:
        self.awaited: dict[int, ReplyDeferred] = {}
        """By call."""
        self.calls: dict[str, int] = {}
        """The call of every name that was handed over."""
        self.taken: dict[str, ReplyFile] = {}
        """By name: the file that was its reply."""
        self.not_taken: set[ReplyFile] = set()
        self.doubts: dict[int, ReplyNotTaken] = {}
        """By call that is still awaited: the last file that was no reply to it."""
        self.moved: str | None = None
        """Where the newest process found the mailbox, if not where the run left it."""
        self._names: dict[int, str] = {}

    def apply(self, body: Body) -> None:
        """Fold one event's body."""
        match body:
            case ReplyDeferred():
                self.awaited[body.call] = body
                self._names[body.call] = body.name
                self.calls[body.name] = body.call
            case AgentReplied():
                self._settle(body.call)
                if body.file is not None:
                    self.taken[self._names[body.call]] = body.file
            case AgentFailed() | AgentCalled():
                self._settle(body.call)
            case ReplyNotTaken():
                self.not_taken.add(body.file)
                if body.call in self.awaited:
                    self.doubts[body.call] = body
            case RunResumed():
                self.moved = body.mailbox
            case RunForked():
                # The parent's mail comes to the parent.
                self.__init__()  # type: ignore[misc]

    def _settle(self, call: int) -> None:
        self.awaited.pop(call, None)
        self.doubts.pop(call, None)
