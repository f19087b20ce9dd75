"""The attacks of the short run, by the rows of ``docs/sandbox/threat-model.md``.

Each row of that page which has attacks has at least one here, and so has each defence of
``defences/`` that can be switched off. ``make test`` tries these and their honest twins;
``make test-all`` tries the whole corpus. What is judged by its speed has the machine to itself, so
a row is stood for by another attack where it has one.
"""

from __future__ import annotations

from tests.attacks.table import ATTACKS

__all__ = ["SHORT", "SHORT_ATTACKS", "SHORT_HONEST"]

SHORT: dict[str, tuple[str, ...]] = {
    "C1": ("patched_harness_clock",),
    "C2": ("shaved_claims",),
    "C3": ("late_thread_native", "numbers_that_come_later", "answers_before_its_call"),
    "C4": ("leaves_out_the_workers_python",),
    "C5": ("tells_libc_to_keep_memory",),
    "C6": ("maps_zeros",),
    "C7": ("burns_cores_between_calls", "cuda_burns_the_device"),
    "C8": ("fires_timers_while_stopped",),
    "C9": ("memo_by_shape", "constant_inputs"),
    "C10": ("works_before_the_release",),
    "C11": ("skips_from_call_k", "cuda_skips_one_call_in_sixteen"),
    "C12": ("default_dtype",),
    "C13": ("cuda_side_stream",),
    "C14": ("cuda_skips_the_flush", "cuda_persisting_l2"),
    "C15": ("cuda_says_done_early",),
    "C16": ("takes_away_the_baselines_pages",),
    "C17": ("slow_until_timed",),
    "C18": ("recovers_the_seed",),
    "A1": ("reads_the_reference_file",),
    "A2": ("nan_outputs", "zeros", "constants", "zeros_where_the_task_is_zero"),
    "A3": ("keeps_its_first_inputs",),
    "A4": ("hard_coded_values",),
    "A5": ("finds_a_note",),
    "A6": ("reads_a_secret_file",),
    "K1": (
        "leaves_the_scores_out",
        "sees_near_atoms_only",
        "hears_nothing",
        "leaves_the_next_token_out",
    ),
    "K2": ("keeps_the_mask_alone",),
    "K3": ("sees_no_saturation",),
    "K4": ("bf16_matmul", "halves_digits_of_all"),
    "K5": ("overflowing_softmax", "reads_one_of_many"),
    "K6": ("listens_to_the_gap", "late_while_it_stands_by"),
    "K7": ("leaves_the_update_out", "guesses_a_step"),
    "K8": ("leaves_the_norms_weight_out",),
    "K9": ("writes_constants_once",),
    "K10": (
        "output_is_the_input",
        "mutates_inputs_when_timed",
        "is_read_as_booleans",
        "one_output_twice",
        "stride_zero",
        "output_is_a_reused_buffer",
    ),
    "K11": ("leaves_the_copy_out",),
    "K12": ("wrong_nesting", "tells_infinity"),
    "K13": ("hostile_equality",),
    "K14": ("garbage_frames",),
    "K15": ("reaches_over_nothing",),
    "K16": ("raises_terminal_escapes", "exception_of_megabytes"),
    "K17": ("patched_comparison",),
    "K18": ("falls_back_to_the_reference",),
    "K19": ("forges_the_compile_report",),
    "K20": ("cuda_race",),
    "K21": ("finalizers",),
    "K22": ("swallows_nan",),
    "H1": ("writes_outside",),
    "H2": ("connects_by_tcp",),
    "H3": ("kills_the_verifier", "kills_a_bystander"),
    "H4": ("forbidden_system_calls", "has_capabilities"),
    "H5": ("inherited_descriptors", "secrets_in_its_surroundings"),
    "H6": ("daemon",),
    "H7": ("hang_that_ignores_sigterm",),
    "H8": ("output_flood", "descriptor_exhaustion"),
    "H9": ("preloads_into_children",),
    "H10": ("compile_bomb_constexpr",),
    "H11": ("leaves_shared_memory",),
    "H12": ("remaps_the_arena",),
    "H13": ("cuda_illegal_access",),
}

SHORT_ATTACKS = frozenset(name for names in SHORT.values() for name in names)
SHORT_HONEST = frozenset(ATTACKS[name].honest for name in SHORT_ATTACKS)
