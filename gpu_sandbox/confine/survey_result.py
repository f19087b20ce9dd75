"""What a survey found: plain data that spawning reads and ``engine doctor`` prints."""

from __future__ import annotations

import msgspec

from gpu_sandbox.confine.kernel_support import Machine
from gpu_sandbox.confine.policy import Tier

__all__ = ["Finding", "Survey"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One attack, tried from inside of a jail."""

    attack: str
    layer: str
    """The only layer that stood against it, with what it needs; ``"all"``: every one."""
    held: bool
    detail: str
    """One line: how it was refused, or what it got."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    layers: tuple[str, ...]
    """What ``spawn`` sets up, and must: each was set up here, attacked, and held."""
    missing: dict[str, str]
    """Every other layer, with the reason and what to do about it, in one line."""
    tier: Tier
    findings: tuple[Finding, ...]
    machine: Machine
    seconds: float
    """What the survey took."""
