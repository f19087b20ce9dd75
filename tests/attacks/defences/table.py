"""The defences, how each is switched off, and the attacks that succeed without it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.attacks.defences import answers, clock, host
from tests.attacks.defences.patching import Patch

__all__ = ["DEFENCES", "patches_of"]

DEFENCES = {
    defence.name: defence for defence in (*clock.DEFENCES, *answers.DEFENCES, *host.DEFENCES)
}


def patches_of(names: Sequence[str]) -> list[Patch]:
    return [patch for name in names for patch in DEFENCES[name].patches]
