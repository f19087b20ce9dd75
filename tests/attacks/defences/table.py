"""The defences, how each is switched off, and the attacks that succeed without it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.attacks.defences import answers, checker, clock, comparison, host, kept, on_gpu
from tests.attacks.defences.patching import Patch

__all__ = ["DEFENCES", "patches_of"]

DEFENCES = {
    defence.name: defence
    for family in (clock, on_gpu, answers, comparison, checker, host, kept)
    for defence in family.DEFENCES
}


def patches_of(names: Sequence[str]) -> list[Patch]:
    return [patch for name in names for patch in DEFENCES[name].patches]
