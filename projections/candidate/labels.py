"""Labels of a correct verdict in words: wherever its figure is shown, they stand beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from events.outcomes import Correct, Outcome

__all__ = [
    "DEGENERATE",
    "MEANINGS",
    "degenerate_lines",
    "labels_listed",
    "labels_of",
    "labels_told",
    "labels_words",
    "with_labels",
]

DEGENERATE = "degenerate-task"
_BEFORE_IT_WAS_A_LABEL = "degenerate task: "
"""What notes of older verdicts begin with, where the task is."""

_STRANGE = re.compile(r"[^a-z0-9-]")

MEANINGS: Mapping[str, str] = {
    DEGENERATE: "what computes nothing passes as well, or inputs never differ: being right says"
    " little",
    "below-floor": "faster than the device moves the inputs and outputs, or does the operations of"
    " the reference: a shortcut, or a reading that can't be true",
    "below-resolution": "so short that the clock does not tell its readings apart",
    "not-gated": "no gate on the GPU has checked its time, only the clock of whole releases",
    "inherits-reference": "it derives from the task's Model, or uses it",
    "torch-only": "it has no kernel of its own, and arranges torch's operations",
    "busy-machine": "the reference was timed on a busy machine, and its time may be too long",
    "fallback": "beside its kernel it has a way that does without, by torch or the reference",
    "host-bound": "faster on the device and slower where the host's work counts: launches, or what"
    " it does in Python, cost more than its kernels save",
    "one-place": "memory holds one set of inputs only: every call finds its inputs at one address",
    "constant-parameters": "parameters that a new module holds as ones or zeros were so in every"
    " trial: nothing showed whether it uses them",
}


def labels_of(outcome: Outcome | None, notes: Sequence[str]) -> list[str]:
    """Those of a verdict. What was no label yet when it was given is in its notes."""
    if not isinstance(outcome, Correct):
        return []
    older = any(note.startswith(_BEFORE_IT_WAS_A_LABEL) for note in notes)
    missing = older and DEGENERATE not in outcome.labels
    return [DEGENERATE, *outcome.labels] if missing else outcome.labels


def with_labels(outcome: Outcome, labels: list[str]) -> Outcome:
    """The outcome as it is shown."""
    if not isinstance(outcome, Correct) or outcome.labels == labels:
        return outcome
    return msgspec.structs.replace(outcome, labels=labels)


def degenerate_lines(labels: Sequence[str], notes: Sequence[str]) -> Iterator[str]:
    """Why a result says little, a line each; none where its task is sound."""
    if DEGENERATE not in labels:
        return
    heads = (f"{DEGENERATE}: ", _BEFORE_IT_WAS_A_LABEL)
    for note in notes:
        head = next((each for each in heads if note.startswith(each)), None)
        if head is not None:
            yield f"DEGENERATE TASK: {note.removeprefix(head)}"
    yield f"DEGENERATE TASK: {MEANINGS[DEGENERATE]}. Do not count this as a success."


def labels_listed(labels: Sequence[str]) -> str:
    """``torch-only, fallback``, in harmless letters, whatever a log says that they are."""
    return ", ".join(_STRANGE.sub("?", label) for label in labels)


def labels_words(labels: Sequence[str]) -> str:
    """``  [torch-only, fallback]``, to stand behind a figure; empty where there is none."""
    return f"  [{labels_listed(labels)}]" if labels else ""


def labels_told(labels: Sequence[str]) -> Iterator[str]:
    """A line each with what it means. A label that is not known here stands alone."""
    for label in labels:
        meaning = f": {MEANINGS[label]}" if label in MEANINGS else ""
        yield f"label {labels_listed([label])}{meaning}"
