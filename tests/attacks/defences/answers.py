"""Defences of the answers."""

from __future__ import annotations

from typing import Any

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch, constant

__all__ = ["DEFENCES"]

_VERIFIER = "gpu_sandbox.verifier"


def _always_the_first(draw: Any) -> Any:
    """Of inputs as the task draws them there is one set."""

    def draw_one(self: Any, purpose: str, index: int = 0, transform: Any = None) -> Any:
        if transform is None and purpose != "form":
            purpose, index = "trial", 0
        return draw(self, purpose, index, transform)

    return draw_one


DEFENCES = (
    Defence(
        name="inputs move",
        module="verifier/worker_link/input_placement.py",
        threats=("A3", "C9"),
        patches=(Patch(f"{_VERIFIER}.worker_link.input_placement:next_slot", constant(0)),),
        bites=(
            Bite("keeps_its_first_inputs"),
            Bite("keeps_views_of_its_first_inputs"),
            Bite("keeps_addresses_of_its_first_inputs"),
            Bite("cuda_keeps_its_first_input"),
            Bite("cuda_graph_of_a_first_address"),
        ),
    ),
    Defence(
        name="fresh inputs in trials and timed calls",
        module="verifier/reference/task.py",
        threats=("A3", "A4"),
        patches=(Patch(f"{_VERIFIER}.reference.task:Task.draw", _always_the_first),),
        bites=(
            Bite("hard_coded_values", also_off=("transformed inputs",)),
            Bite("the_output_before", also_off=("transformed inputs",)),
            Bite("keeps_outputs_by_address", also_off=("transformed inputs",)),
            Bite("memo_by_content", also_off=("transformed inputs",)),
            Bite("memo_by_version", also_off=("transformed inputs",)),
            Bite("memo_by_shape", also_off=("transformed inputs",)),
            Bite("memo_by_pointer", also_off=("transformed inputs", "outputs are overwritten")),
            Bite("memo_by_id", also_off=("transformed inputs", "outputs are overwritten")),
        ),
    ),
    Defence(
        name="NaN never passes",
        module="verifier/numerics/rules/not_finite.py",
        threats=("A2",),
        patches=(
            Patch(f"{_VERIFIER}.numerics.rules.not_finite:NotFinite.prepare", constant(None)),
        ),
        bites=(
            Bite("nan_outputs", also_off=("relative L2", "slices")),
            Bite("nan_into_the_arena", also_off=("relative L2", "slices")),
        ),
    ),
)
