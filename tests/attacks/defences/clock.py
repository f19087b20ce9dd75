"""Defences of the clock."""

from __future__ import annotations

from typing import Any

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch

__all__ = ["DEFENCES"]


def _as_claimed(_: Any) -> Any:
    return lambda claim, *_, **__: (claim, "")


DEFENCES = (
    Defence(
        name="wall-time bound",
        module="verifier/timing/claim_rules.py",
        threats=("C1", "C2"),
        patches=(Patch("gpu_sandbox.verifier.timing.score:decide", _as_claimed),),
        bites=(Bite("patched_harness_clock"),),
    ),
)
