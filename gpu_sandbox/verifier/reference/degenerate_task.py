"""The label of a task that zeros or a constant would pass, and the note that is its reason."""

from __future__ import annotations

from collections.abc import Sequence

from events.outcomes import Label

__all__ = ["DEGENERATE", "degenerate", "labels_by"]

DEGENERATE: Label = "degenerate-task"

_NOTED = f"{DEGENERATE}: "


def degenerate(told: str) -> str:
    """The note that is the reason of the label."""
    return f"{_NOTED}{told}"


def labels_by(notes: Sequence[str]) -> list[Label]:
    """The label, if a note is its reason."""
    return [DEGENERATE] if any(note.startswith(_NOTED) for note in notes) else []
