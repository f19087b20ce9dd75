"""Peak memory of a correct candidate beside the reference's, in words."""

from __future__ import annotations

from events.outcomes import Correct, Outcome

__all__ = ["FLOOR_BYTES", "memory_mark", "memory_ratio", "memory_words", "size_words"]

_MB, _GB = 1 << 20, 1 << 30
FLOOR_BYTES = 4 * _MB
"""Less than that is what allocators round to, and what libraries take: it counts as this much."""
_SMALL, _LARGE = 0.8, 1.2
"""A ratio between these is not worth a word in a tree."""


def memory_ratio(peak_bytes: int | None, reference_peak_bytes: int | None) -> float | None:
    """Candidate / reference; None where one is not known, or both are below the floor."""
    if peak_bytes is None or reference_peak_bytes is None:
        return None
    if max(peak_bytes, reference_peak_bytes) < FLOOR_BYTES:
        return None
    return max(peak_bytes, FLOOR_BYTES) / max(reference_peak_bytes, FLOOR_BYTES)


def memory_words(peak_bytes: int | None, reference_peak_bytes: int | None) -> str:
    """``peak memory 128 MB, reference 64 MB``; empty where the candidate's is not known."""
    if peak_bytes is None:
        return ""
    words = f"peak memory {size_words(peak_bytes)}"
    if reference_peak_bytes is not None:
        words += f", reference {size_words(reference_peak_bytes)}"
    return words


def memory_mark(outcome: Outcome | None) -> str:
    """``  2.3× memory``, to stand behind a figure; empty where that is about the reference's."""
    if not isinstance(outcome, Correct):
        return ""
    ratio = memory_ratio(outcome.peak_bytes, outcome.reference_peak_bytes)
    return "" if ratio is None or _SMALL < ratio < _LARGE else f"  {ratio:.2g}× memory"


def size_words(size: int) -> str:
    """``128 MB``, ``12.3 GB``, or that it is below the floor."""
    if size < FLOOR_BYTES:
        return f"below {FLOOR_BYTES // _MB} MB"
    return f"{size / _GB:.1f} GB" if size >= 10 * _GB else f"{size / _MB:.0f} MB"
