"""Defences of the answers."""

from __future__ import annotations

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch, constant

__all__ = ["DEFENCES"]

DEFENCES = (
    Defence(
        name="inputs move",
        module="verifier/worker_link/input_placement.py",
        threats=("A3", "C9"),
        patches=(Patch("gpu_sandbox.verifier.worker_link.input_placement:next_slot", constant(0)),),
        bites=(
            Bite("keeps_its_first_inputs"),
            Bite("keeps_views_of_its_first_inputs"),
            Bite("keeps_addresses_of_its_first_inputs"),
        ),
    ),
)
