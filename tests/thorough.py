"""How thorough a run is: ``make test`` is quick, ``make test-all`` sets ``STARK_TEST_THOROUGH``."""

from __future__ import annotations

import os

__all__ = ["THOROUGH", "examples"]

THOROUGH = bool(os.environ.get("STARK_TEST_THOROUGH"))
_FEWER, _LEAST = 5, 10


def examples(number: int) -> int:
    """How many examples Hypothesis tries of a property that deserves ``number``."""
    return number if THOROUGH else min(number, max(_LEAST, number // _FEWER))
