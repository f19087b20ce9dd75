"""The log's error tree.

LogError
├── LogUnreadable      not a file we can read, or not SQLite
│   ├── NotALog        SQLite, but of another program
│   ├── NewerFormat    a log from a newer version of this program
│   └── OlderFormat    a run that only an older version of this program can go on with
├── LogInUse           another process has it open for writing
├── LogDamaged         the content contradicts itself (chain, gaps, missing blobs)
├── WriterFailed       an append could not be made durable; the writer takes no more
├── RunUnknown         no such run in this log
├── BlobRedacted       a text that was left out of this copy of the log
└── BodyInvalid        an event body that can't be encoded or decoded faithfully
"""

from __future__ import annotations

__all__ = [
    "BlobRedacted",
    "BodyInvalid",
    "LogDamaged",
    "LogError",
    "LogInUse",
    "LogUnreadable",
    "NewerFormat",
    "NotALog",
    "OlderFormat",
    "RunUnknown",
    "WriterFailed",
]


class LogError(Exception):
    """Base of everything that the log raises; the message is for the user."""


class LogUnreadable(LogError):
    pass


class NotALog(LogUnreadable):
    pass


class NewerFormat(LogUnreadable):
    pass


class OlderFormat(LogUnreadable):
    pass


class LogInUse(LogError):
    """``pid`` holds the writer's lock (None if unknown)."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class LogDamaged(LogError):
    pass


class WriterFailed(LogError):
    pass


class RunUnknown(LogError):
    pass


class BlobRedacted(LogError):
    pass


class BodyInvalid(LogError):
    pass
