"""Attacks that a jail tries on itself, so that no layer is promised that does nothing."""

from __future__ import annotations

from gpu_sandbox.confine.attacks.attack import Attack, Result, attempt
from gpu_sandbox.confine.attacks.excess import tight_policy
from gpu_sandbox.confine.attacks.table import ATTACKS
from gpu_sandbox.confine.attacks.targets import Targets, scratch, targets

__all__ = [
    "ATTACKS",
    "Attack",
    "Result",
    "Targets",
    "attempt",
    "scratch",
    "targets",
    "tight_policy",
]
