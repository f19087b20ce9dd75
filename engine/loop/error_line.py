"""An unforeseen exception in one line for the log: what it is, and where it is from."""

from __future__ import annotations

import traceback
from pathlib import PurePath

__all__ = ["line_about"]

_MOST_CHARS = 400
_MOST_FRAMES = 4


def line_about(error: BaseException) -> str:
    """Of a group, its first. The innermost call comes first."""
    raised = error.__traceback__
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        raised = error.__traceback__ or raised
    words = " ".join(str(error).split())[:_MOST_CHARS]
    frames = traceback.extract_tb(raised, limit=-_MOST_FRAMES)
    where = " < ".join(
        f"{'/'.join(PurePath(frame.filename).parts[-2:])}:{frame.lineno} in {frame.name}"
        for frame in reversed(frames)
    )
    return f"unexpected {type(error).__name__}: {words} (at {where})"
