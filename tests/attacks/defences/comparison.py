"""Defences of the comparison: rules, tolerances, and the inputs that outputs are compared on."""

from __future__ import annotations

from typing import Any

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch, constant

__all__ = ["DEFENCES"]

_VERIFIER = "gpu_sandbox.verifier"
_RULES = f"{_VERIFIER}.numerics.rules"


def _wide(rules: Any) -> Any:
    """Of float32 what is right in bfloat16."""
    import torch

    return {**rules, torch.float32: rules[torch.bfloat16]}


def _lowering(expect: Any) -> Any:
    """Whatever the reference computes in."""
    return lambda *outputs, **options: expect(*outputs, **{**options, "half_precision": True})


def _whole(_: Any) -> Any:
    import torch

    return lambda tensor, part: torch.ones_like(tensor, dtype=torch.bool)


DEFENCES = (
    Defence(
        name="relative L2",
        module="verifier/numerics/rules/relative_l2.py",
        threats=("K1", "K4"),
        patches=(Patch(f"{_RULES}.relative_l2:RelativeL2.prepare", constant(None)),),
        bites=(Bite("zeros", also_off=("slices", "error quantiles", "elements")),),
    ),
    Defence(
        name="slices",
        module="verifier/numerics/rules/slices.py",
        threats=("K1",),
        patches=(Patch(f"{_RULES}.slices:Slices.prepare", constant(None)),),
        bites=(
            Bite("leaves_the_scores_out"),
            Bite("leaves_a_channel_out"),
            Bite("leaves_out_beside_the_best"),
            Bite("leaves_out_without_float64"),
            Bite("leaves_a_column_beside_noise"),
        ),
    ),
    Defence(
        name="error quantiles",
        module="verifier/numerics/rules/error_quantiles.py",
        threats=("K1",),
        patches=(Patch(f"{_RULES}.error_quantiles:ErrorQuantiles.prepare", constant(None)),),
        bites=(Bite("sees_near_atoms_only", also_off=("elements",)),),
    ),
    Defence(
        name="elements",
        module="verifier/numerics/rules/elements.py",
        threats=("K1",),
        patches=(Patch(f"{_RULES}.elements:Elements.prepare", constant(None)),),
        bites=(Bite("constants", also_off=("slices", "error quantiles", "relative L2")),),
    ),
    Defence(
        name="flips are few in each slice",
        module="verifier/numerics/rules/integers.py",
        threats=("K1", "K3"),
        patches=(Patch(f"{_RULES}.integers:is_clustered", constant(False)),),
        bites=(
            Bite("hears_nothing"),
            Bite("hears_every_other"),
            Bite("hears_nothing_in_a_row"),
        ),
    ),
    Defence(
        name="few outputs have more flips than were seen",
        module="verifier/numerics/rules/integers.py",
        threats=("K3",),
        patches=(Patch(f"{_RULES}.integers:FlipBudget.tolerates", constant(True)),),
        bites=(Bite("leaves_the_next_token_out"),),
    ),
    Defence(
        name="fill value",
        module="verifier/numerics/fill_value.py",
        threats=("K2",),
        patches=(Patch(f"{_VERIFIER}.numerics.expected:fill_value_of", constant(None)),),
        bites=(Bite("leaves_all_but_the_mask_out"), Bite("keeps_the_mask_alone")),
    ),
    Defence(
        name="tolerances by dtype",
        module="verifier/numerics/tolerances.py",
        threats=("K4",),
        patches=(Patch(f"{_VERIFIER}.numerics.tolerances:TOLERANCES", _wide),),
        bites=(
            Bite("bf16_matmul"),
            Bite("fp16_accumulation", also_off=("transformed inputs",)),
            Bite("cuda_tf32"),
        ),
    ),
    Defence(
        name="half precision where the reference has it",
        module="verifier/numerics/half_precision_reference.py",
        threats=("K4",),
        patches=(
            Patch(f"{_VERIFIER}.reference.task:expect", _lowering),
            Patch(f"{_VERIFIER}.numerics.expected:half_precision_share", constant(1.0)),
        ),
        bites=(Bite("halves_digits_of_all"), Bite("halves_digits_behind_a_gate")),
    ),
    Defence(
        name="what marks something is not moved",
        module="verifier/numerics/sentinel_values.py",
        threats=("K3",),
        patches=(
            Patch(f"{_VERIFIER}.reference.ulp_perturbation:sentinel_mask", constant(None)),
            Patch(f"{_VERIFIER}.trials.rounding_recheck:sentinel_mask", constant(None)),
        ),
        bites=(Bite("sees_no_saturation"), Bite("averages_padding_in")),
    ),
    Defence(
        name="transformed inputs",
        module="verifier/inputs/transforms.py",
        threats=("K5",),
        patches=(Patch(f"{_VERIFIER}.trials.trial_cases:transforms_for", constant(())),),
        bites=(
            Bite("overflowing_softmax"),
            Bite("looks_whether_inputs_are_changed"),
            Bite("limits_no_queries"),
            Bite("takes_the_norm_for_granted"),
            Bite("takes_turns_for_small_ones"),
            Bite("takes_it_for_one_factor"),
            Bite("reads_the_diagonal"),
            Bite("keeps_bounds_if_asked"),
        ),
    ),
    Defence(
        name="hidden cases among timed calls",
        module="verifier/trials/hidden_cases.py",
        threats=("K5", "K6"),
        patches=(Patch(f"{_VERIFIER}.trials.hidden_cases:HiddenCases.among", constant({})),),
        bites=(
            Bite("careful_only_in_trials"),
            Bite("listens_to_the_gap"),
            Bite("late_while_it_stands_by", also_off=("a late candidate is ended",)),
        ),
    ),
    Defence(
        name="a late candidate is ended",
        module="verifier/timing/stopping_rule.py",
        threats=("K6",),
        patches=(Patch(f"{_VERIFIER}.timing.benchmark:Benchmark._late", constant("")),),
        bites=(
            Bite("late_while_it_stands_by", also_off=("hidden cases among timed calls",)),
            Bite("late_between_calls", also_off=("hidden cases among timed calls",)),
        ),
    ),
    Defence(
        name="parts of inputs are transformed",
        module="verifier/inputs/subsets.py",
        threats=("K5",),
        patches=(Patch(f"{_VERIFIER}.inputs.apply:random_subset", _whole),),
        bites=(
            Bite("reads_an_eighth"),
            Bite("reads_one_of_many"),
        ),
    ),
    Defence(
        name="mutated inputs are compared",
        module="verifier/numerics/mutated_inputs.py",
        threats=("K7",),
        patches=(
            Patch(f"{_VERIFIER}.trials.trials:check_mutated", constant(None)),
            Patch(f"{_VERIFIER}.timing.pairing:check_mutated", constant(None)),
        ),
        bites=(
            Bite("leaves_the_update_out"),
            Bite("leaves_the_statistics_out"),
            Bite("leaves_the_step_out"),
            Bite("cuda_leaves_the_step_out_behind_gates"),
        ),
    ),
    Defence(
        name="changes of inputs go in the right direction",
        module="verifier/numerics/mutated_inputs.py",
        threats=("K7",),
        patches=(
            Patch(f"{_VERIFIER}.numerics.mutated_inputs:MutatedInput.wrong_change", constant("")),
        ),
        bites=(
            Bite("guesses_a_step"),
            Bite("leaves_the_average_out", also_off=("transformed inputs",)),
        ),
    ),
    Defence(
        name="trained trial",
        module="verifier/trials/trained_trial.py",
        threats=("K8",),
        patches=(Patch(f"{_VERIFIER}.trials.trained_trial:constant_state", constant({})),),
        bites=(Bite("leaves_the_norms_weight_out"), Bite("leaves_running_statistics_out")),
    ),
)
