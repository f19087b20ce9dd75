"""Labels of a correct verdict in words: wherever its figure is shown, they stand beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["MEANINGS", "labels_listed", "labels_told", "labels_words"]

_STRANGE = re.compile(r"[^a-z0-9-]")

MEANINGS: Mapping[str, str] = {
    "below-floor": "faster than the device moves the inputs and outputs, or does the operations of"
    " the reference: a shortcut, or a reading that can't be true",
    "below-resolution": "so short that the clock does not tell its readings apart",
    "not-gated": "no gate on the GPU has checked its time, only the clock of whole releases",
    "inherits-reference": "it derives from the task's Model, or uses it",
    "torch-only": "it has no kernel of its own, and arranges torch's operations",
    "fallback": "beside its kernel it has a way that does without, by torch or the reference",
    "host-bound": "faster on the device and slower where the host's work counts: launches, or what"
    " it does in Python, cost more than its kernels save",
    "one-place": "memory holds one set of inputs only: every call finds its inputs at one address",
}


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
