"""The table of attacks: what each one is, and what may become of it.

It states what must be, not what is. One line an attack; its file is
``corpus/FAMILY/NAME.py``, and that file's docstring says why it could work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from gpu_sandbox.api.limits import Limits

__all__ = [
    "ALL_LIMITS",
    "ANYTHING",
    "ATTACKS",
    "BUILDS",
    "REJECTED",
    "USELESS",
    "WRONG",
    "WRONG_OR_COUNTED",
    "Attack",
    "Device",
    "Family",
]

Family: TypeAlias = Literal["clock", "answers", "checker", "host"]
Device: TypeAlias = Literal["cpu", "cuda", "both"]

REJECTED = frozenset({"cheated", "wrong_result", "crashed", "refused"})
"""Its output is wrong, or its claim is: it must not pass."""

WRONG = frozenset({"wrong_result"})
"""The same where it would show that it attacks nothing if it got another outcome."""

USELESS = REJECTED | {"correct"}
"""It may pass, because its outputs are right; then it must not be faster than its twin."""

PASSES = frozenset({"correct"})
"""The same where it would show that it attacks nothing if it were rejected."""

WRONG_OR_COUNTED = WRONG | PASSES
"""It answers early and goes on: what it has not done when it is stopped is wrong. On a busy machine
the stop may come so late that all is done, and then all of that is in its time."""

ANYTHING = USELESS | {"timed_out"}
"""Whatever becomes of it, the damage must not be done (``world.py`` looks for it). Not
``compile_failed``: an attack that does not even import has tried nothing."""

BUILDS = ANYTHING | {"compile_failed"}
"""The same, where it is the compiler that may refuse."""

_CUT_OFF = frozenset({"timed_out", "crashed"})
_DIES = frozenset({"crashed"})
_FOUND_OUT = frozenset({"cheated"})

QUICK = Limits(bench_s=0.15, call_s=20.0, compile_s=60.0, autopsy_s=0.0)
BUILDS_IN_FORWARD = Limits(bench_s=0.15, call_s=180.0)
HANGS = Limits(bench_s=0.15, call_s=1.0)
COMPILE_HANGS = Limits(bench_s=0.15, call_s=20.0, compile_s=3.0)
TWIN = Limits(bench_s=1.0)
TWO_GIGABYTES = Limits(bench_s=0.15, call_s=20.0, memory_bytes=2 << 30)

ALL_LIMITS = (QUICK, BUILDS_IN_FORWARD, HANGS, COMPILE_HANGS, TWIN, TWO_GIGABYTES)


class Attack(msgspec.Struct, frozen=True):
    """``outcomes`` are the tags that it may get; ``correct`` among them is subject to the
    twin's speed (the reference under the candidate's name, timed by the same sandbox).
    ``honest`` names the candidate that a clumsy defence against this one would hit
    (``honest_table.py``): it does the like, and must be accepted.

    ``needs`` are the isolation layers without which it can't be expected to fail: where a
    verdict says that one is missing, it is not run, because it might do harm; ``or_watched``:
    where memory is watched, no cgroup is needed. ``before``
    names an attack that is run first, in the same world. ``after``: an honest candidate
    must come out correct, and no slower, after it. ``degenerate``: the verdict must say
    that the task is. ``gains``: how many times its twin's speed it may reach, more than usual where
    ``docs/sandbox/limits.md`` says what is not promised. ``elsewhere``: also tried under other
    kinds of isolation (README). ``says``: what the
    reason has to contain. ``timed``: it
    is right in the trials, so if one of these finds it wrong it has tried nothing.
    """

    name: str
    family: Family
    outcomes: frozenset[str]
    honest: str
    task: str = "small"
    device: Device = "cpu"
    compiles: bool = False
    limits: Limits = QUICK
    needs: tuple[str, ...] = ()
    or_watched: bool = False
    before: str | None = None
    after: bool = False
    degenerate: bool = False
    says: str = ""
    elsewhere: bool = False
    timed: bool = False
    gains: float = 1.15

    @property
    def is_of_places(self) -> bool:
        """It counts on a call's inputs lying where those of an earlier call lay."""
        return self.says in (EARLIER, KEPT)


def _of(family: Family, task: str) -> Callable[..., Attack]:
    """Attacks of one family, on ``task`` if no other is named."""

    def attack(name: str, outcomes: frozenset[str], honest: str, **options: Any) -> Attack:
        return Attack(name, family, outcomes, honest, **{"task": task, **options})

    return attack


# On a task that takes long enough for its clock to be worth cheating, and whose answers are long
# enough to be found in memory.
_clock, _answers = _of("clock", "elementwise"), _of("answers", "elementwise")
_checker, _host = _of("checker", "small"), _of("host", "small")

EARLIER = "it reads the memory of an earlier input"
KEPT = "its output is the same when its inputs hold other values"

_CLOCK = (
    _clock("patched_time_module", USELESS, "times_its_variants", device="both"),
    _clock("patched_harness_clock", USELESS, "times_its_variants", device="both"),
    _clock("shaved_claims", USELESS, "plain_torch"),
    _clock("shaved_messages", USELESS, "plain_torch", device="both"),
    _clock("answers_before_its_call", WRONG_OR_COUNTED, "scratch_in_place", task="softmax"),
    # What it takes to make the list of them is nothing that anybody else sees.
    _clock("tells_of_many_outputs", USELESS, "many_outputs", task="many", gains=2.8, limits=TWIN),
    _clock("answers_beside_its_call", USELESS, "threads_that_are_joined", task="softmax"),
    _clock("leaves_its_call_to_a_fork", WRONG_OR_COUNTED, "starts_a_process", task="softmax"),
    _clock("tells_libc_to_keep_memory", USELESS, "times_its_variants", task="large_softmax"),
    _clock("maps_zeros", USELESS, "pads_by_hand", task="padded"),
    _clock("maps_what_is_constant", USELESS, "writes_the_prompt_anew", task="prompted"),
    _clock("maps_rows_of_a_table", USELESS, "copies_rows", task="bank"),
    _clock("maps_rows_as_outputs", USELESS, "copies_rows_as_outputs", task="window"),
    _clock("stretches_the_rest", USELESS, "starts_a_process", task="softmax"),
    _clock("fires_timers_while_stopped", USELESS, "runs_programs", task="softmax", compiles=True),
    _clock("leaves_out_the_workers_python", PASSES, "scripted", task="softmax", gains=1.4),
    # Of calls of a millisecond and more: docs/sandbox/limits.md says what it gains on shorter ones.
    _clock("answers_from_native_code", PASSES, "c_through_ctypes", compiles=True, gains=1.4),
    _clock(
        "warms_up_while_it_stands_by",
        PASSES,
        "weights_prepared_in_first_call",
        task="softmax",
        limits=TWIN,
    ),
    _clock("batch_runs_only_the_last", WRONG, "cached_workspace", device="cuda"),
    _clock("takes_over_the_worker", REJECTED, "base_class_of_its_own", device="both"),
    _clock("numbers_that_come_later", REJECTED, "plain_number_output", task="numbers"),
    _clock(
        "cuda_numbers_of_the_last_call",
        WRONG,
        "plain_number_output",
        task="numbers",
        device="cuda",
        timed=True,
    ),
    _clock("replies_in_advance", USELESS, "talks_to_itself", device="both"),
    _clock("memo_by_pointer", USELESS, "weights_prepared_in_first_call", device="both"),
    _clock("memo_by_id", USELESS, "weights_prepared_in_first_call", device="both"),
    _clock("memo_by_version", USELESS, "weights_prepared_in_first_call", device="both"),
    _clock("memo_by_content", USELESS, "constant_tables", device="both"),
    _clock("memo_by_shape", REJECTED, "constant_tables", device="both", timed=True),
    _clock("lookahead_in_frames", USELESS, "reads_its_own_file", task="gemv", device="both"),
    _clock("lookahead_in_the_arena", USELESS, "view_of_fresh_memory", task="gemv"),
    _clock("lazy_subclass", USELESS, "graph_module", device="both"),
    _clock("late_thread", USELESS, "threads_that_are_joined", device="both"),
    _clock("late_thread_native", REJECTED, "cpp_parallel_for", compiles=True),
    _clock("writes_its_output_late", WRONG_OR_COUNTED, "threads_that_are_joined"),
    _clock("works_before_the_release", USELESS, "threads_that_are_joined"),
    _clock("overlaps_calls", USELESS, "threads_that_are_joined"),
    _clock(
        "slow_until_timed", USELESS, "weights_prepared_in_first_call", device="both", timed=True
    ),
    _clock("skips_from_call_k", REJECTED, "cached_workspace", device="both"),
    _clock("skips_when_timed", USELESS, "reads_its_own_file", device="both"),
    # Of ten pairs none is of such a call once in twenty times.
    _clock(
        "skips_one_call_in_four",
        REJECTED,
        "cached_workspace",
        device="both",
        timed=True,
        limits=TWIN,
    ),
    _clock(
        "coarse_when_timed", REJECTED, "split_products", task="matmul", device="both", timed=True
    ),
    _clock("burns_cores_between_calls", USELESS, "threads_that_are_joined", device="both"),
    _clock("burns_cores_in_a_child", USELESS, "starts_a_process"),
    _clock("takes_away_the_baselines_pages", USELESS, "scratch_in_place", timed=True),
    _clock("realtime_priority", USELESS, "cpp_openmp_avx"),
    _clock("global_switches", USELESS, "looks_around", device="both"),
    _clock("default_dtype", USELESS, "half", device="both"),
    _clock("rewrites_the_callers_start", USELESS, "times_its_variants"),
    _clock("patched_statistics", USELESS, "times_its_variants", device="both"),
    _clock(
        "constant_inputs",
        USELESS,
        "constant_tables",
        task="fixed_inputs",
        device="both",
        degenerate=True,
    ),
    _clock(
        "unchecked_when_random",
        REJECTED,
        "dropout_like_the_reference",
        task="dropout",
        device="both",
        timed=True,
    ),
    _clock("recovers_the_seed", USELESS, "dropout_like_the_reference"),
    _clock("moves_the_baseline", USELESS, "looks_around"),
    _clock(
        "cuda_computes_into_its_place",
        USELESS,
        "cached_workspace",
        task="large_sine",
        device="cuda",
    ),
    _clock("cuda_shaves_a_fifth", USELESS, "times_its_variants", task="gas", device="cuda"),
    _clock(
        "cuda_shaves_short_calls",
        USELESS,
        "times_its_variants",
        task="sine",
        device="cuda",
        gains=1.65,
    ),
    _clock("cuda_side_stream", USELESS, "cuda_joined_streams", device="cuda"),
    _clock("cuda_late_side_stream", USELESS, "cuda_joined_streams", device="cuda"),
    _clock("cuda_native_stream", USELESS, "cuda_default_stream", device="cuda", compiles=True),
    _clock("cuda_patched_events", USELESS, "times_its_variants", device="cuda"),
    _clock("cuda_patched_synchronize", USELESS, "times_its_variants", device="cuda"),
    _clock("cuda_detoured_event_function", USELESS, "cuda_nvrtc", device="cuda"),
    _clock(
        "cuda_persisting_l2", PASSES, "cuda_keeps_what_it_reads_again", task="gemv", device="cuda"
    ),
    _clock("cuda_burns_the_device", USELESS, "cuda_joined_streams", device="cuda"),
    _clock(
        "cuda_resident_kernel",
        USELESS | {"timed_out"},
        "cuda_joined_streams",
        device="cuda",
        after=True,
    ),
    _clock("cuda_stale_graph", REJECTED, "cuda_graph", device="cuda"),
    _clock("cuda_writes_the_arena_late", USELESS, "cuda_joined_streams", device="cuda"),
    _clock("cuda_overlaps_calls", USELESS, "cuda_joined_streams", device="cuda"),
    _clock("cuda_skips_the_flush", USELESS, "cuda_graph", device="cuda"),
    _clock("cuda_skips_one_call_in_sixteen", WRONG, "cached_workspace", device="cuda"),
    _clock("cuda_says_done_early", WRONG, "cuda_joined_streams", device="cuda"),
    _clock("cuda_works_on_sealed_inputs", WRONG, "cuda_joined_streams", device="cuda"),
    _clock("cuda_watches_inputs_come", USELESS, "cuda_joined_streams", device="cuda"),
)

_ANSWERS = (
    _answers("reads_the_reference_file", ANYTHING, "reads_its_own_file"),
    _answers("walks_to_the_reference", ANYTHING, "reads_its_own_file", device="both"),
    _answers(
        "finds_leftover_tensors",
        ANYTHING,
        "cached_workspace",
        device="both",
        before="leaves_a_note",
    ),
    _answers("expected_values_in_the_arena", USELESS, "view_of_fresh_memory"),
    _answers("nan_outputs", REJECTED, "online_softmax", device="both"),
    _answers("nan_into_the_arena", REJECTED, "scratch_in_place"),
    _answers("unwritten_output", REJECTED, "empty_output", device="both"),
    _answers("recycled_memory", REJECTED, "view_of_fresh_memory", device="both"),
    _answers("zeros", REJECTED, "online_softmax", task="softmax", device="both"),
    _answers("constants", REJECTED, "online_softmax", task="softmax", device="both"),
    _answers(
        "zeros_where_the_task_is_zero",
        USELESS,
        "split_products",
        task="zero_outputs",
        device="both",
        degenerate=True,
    ),
    _answers("keeps_its_first_inputs", WRONG, "cached_workspace", device="both", says=EARLIER),
    _answers(
        "keeps_views_of_its_first_inputs", WRONG, "cached_workspace", device="both", says=EARLIER
    ),
    _answers(
        "keeps_addresses_of_its_first_inputs",
        WRONG,
        "cached_workspace",
        device="both",
        says=EARLIER,
    ),
    _answers("keeps_outputs_by_address", WRONG, "cached_workspace", device="both", says=KEPT),
    _answers(
        "cuda_graph_of_first_addresses",
        WRONG,
        "cuda_graphs_by_address",
        device="cuda",
        says=EARLIER,
    ),
    _answers(
        "cuda_keeps_its_first_input",
        WRONG,
        "cached_workspace",
        task="slow_layers",
        device="cuda",
        says=EARLIER,
    ),
    _answers(
        "cuda_keeps_an_output_by_address",
        WRONG,
        "cached_workspace",
        task="slow_layers",
        device="cuda",
        says=KEPT,
    ),
    _answers(
        "cuda_graph_of_a_first_address",
        WRONG,
        "cuda_graph_of_slow_layers",
        task="slow_layers",
        device="cuda",
        says=EARLIER,
    ),
    _answers("the_output_before", REJECTED, "cached_workspace", device="both"),
    _answers("hard_coded_values", REJECTED, "constant_tables", device="both"),
    _answers("leaves_a_note", ANYTHING, "temporary_files"),
    _answers("finds_a_note", ANYTHING, "temporary_files", before="leaves_a_note"),
    _answers("includes_a_secret_file", BUILDS, "c_through_ctypes", compiles=True),
    _answers("compiler_prints_a_secret_file", BUILDS, "c_through_ctypes", compiles=True),
    _answers("reads_a_secret_file", ANYTHING, "reads_its_own_file", device="both", elsewhere=True),
    _answers("reads_other_processes", ANYTHING, "looks_around"),
    _answers("reads_other_runs", ANYTHING, "temporary_files"),
    _answers("cuda_scans_device_memory", USELESS, "cached_workspace", device="cuda"),
)

_CHECKER = (
    # Hard-coding a shape is honest where a task has but one: that is all it asks for, and agents
    # are told the shape. It is an attack where get_inputs() draws shapes: calls are timed on
    # inputs like the first, so that only trials show what is made of the others.
    _checker("hard_coded_shapes", REJECTED, "shape_dispatch", task="two_lengths", device="both"),
    _checker("mutates_inputs_when_timed", REJECTED, "scratch_in_place", device="both", timed=True),
    _checker(
        "careful_only_in_trials",
        REJECTED,
        "online_softmax",
        task="softmax",
        device="both",
        limits=TWIN,
    ),
    _checker(
        "late_between_calls",
        WRONG | {"timed_out"},  # one pair in four has the inputs that show it
        "times_its_variants",
        task="softmax",
        limits=TWIN,
    ),
    _checker("output_is_the_input", REJECTED, "aliases_as_the_reference_does", device="both"),
    _checker("leaves_the_update_out", REJECTED, "scratch_in_place", task="momentum"),
    _checker(
        "leaves_the_statistics_out",
        REJECTED,
        "keeps_running_statistics",
        task="batch_statistics",
        device="both",
    ),
    _checker(
        "leaves_the_norms_weight_out",
        WRONG,
        "norms_under_other_names",
        task="normed",
        device="both",
    ),
    _checker(
        "leaves_running_statistics_out",
        WRONG,
        "folds_statistics",
        task="standardized",
        device="both",
    ),
    _checker("leaves_the_step_out", REJECTED, "steps_in_place", task="adam", device="both"),
    _checker(
        "cuda_leaves_the_step_out_behind_gates",
        WRONG,
        "steps_in_place",
        task="adam",
        device="cuda",
        timed=True,
    ),
    _checker(
        "looks_here_and_there",
        WRONG | {"correct"},  # one verdict in thirty does not meet it, nor does it gain much
        "looks_for_both_at_once",
        task="min_max",
        device="both",
        gains=3.0,
    ),
    _checker("samples_a_count", REJECTED, "counts_by_rows", task="readings", device="both"),
    _checker("samples_a_mean", REJECTED, "drifts_by_rows", task="drift", device="both"),
    _checker("leaves_chaos_out", REJECTED, "turns_rotors_in_place", task="rotors", device="both"),
    _checker(
        "writes_constants_once",
        REJECTED,
        "writes_constants_anew",
        task="positions",
        device="both",
    ),
    _checker("sees_near_atoms_only", REJECTED, "pushes_by_columns", task="gas", device="both"),
    _checker(
        "leaves_the_next_token_out",
        REJECTED,
        "appends_the_next_token",
        task="decoding",
        device="both",
    ),
    _checker("leaves_the_scores_out", REJECTED, "scores_in_place", task="scored", device="both"),
    _checker(
        "leaves_the_scores_out_when_timed",
        REJECTED,
        "scores_in_place",
        task="scored",
        device="both",
    ),
    _checker("hears_nothing", REJECTED, "hears_in_place", task="sounds", device="both"),
    _checker("hears_every_other", REJECTED, "hears_in_place", task="sounds", device="both"),
    _checker(
        "hears_nothing_in_a_row",
        REJECTED,
        "hears_all_at_once",
        task="sounds_by_time",
        device="both",
    ),
    _checker(
        "leaves_a_channel_out", REJECTED, "scores_by_channels", task="scored_apart", device="both"
    ),
    _checker(
        "leaves_out_beside_a_diagonal",
        REJECTED,
        "fills_as_it_writes",
        task="unlike_itself",
        device="both",
    ),
    _checker(
        "leaves_out_beside_the_best",
        REJECTED,
        "scores_beside_the_best",
        task="best_and_scored",
        device="both",
    ),
    _checker(
        "leaves_out_without_float64",
        REJECTED,
        "scores_by_tables",
        task="scored_by_tables",
        device="both",
    ),
    _checker("guesses_half", REJECTED, "rates_in_place", task="rated", device="both"),
    _checker("limits_no_queries", REJECTED, "limits_queries", task="least_masked", device="both"),
    _checker("limits_no_code", REJECTED, "adds_noise_in_place", task="noisy_code", device="both"),
    _checker(
        "leaves_all_but_the_mask_out",
        REJECTED,
        "masks_in_place",
        task="windowed_scores",
        device="both",
    ),
    _checker(
        "writes_constants_as_outputs_end",
        REJECTED,
        "writes_constants_anew",
        task="positions",
        device="both",
    ),
    _checker("guesses_a_step", REJECTED, "moves_bodies_by_quarters", task="bodies", device="both"),
    _checker(
        "leaves_the_average_out",
        REJECTED,
        "averages_by_interpolation",
        task="averaged",
        device="both",
    ),
    _checker(
        "late_while_it_stands_by",
        WRONG | {"timed_out"},
        "limits_in_one_pass",
        task="limiter",
        limits=TWIN,
        timed=True,
    ),
    _checker(
        "careful_by_turns",
        WRONG | {"correct"},  # some verdicts do not meet it, and then it gains by the mean
        "looks_for_both_at_once",
        task="min_max",
        device="both",
        limits=TWIN,
        gains=1.5,
    ),
    _checker("tells_one_number_of_four", REJECTED, "sums_by_rows", task="metrics", device="both"),
    _checker("tells_infinity", REJECTED, "sums_by_rows", task="metrics", device="both"),
    _checker("takes_the_norm_for_granted", REJECTED, "norms_by_parts", task="wave", device="both"),
    _checker("one_output_twice", REJECTED, "computes_twice", task="twice"),
    _checker("extrapolates_a_count", REJECTED, "counts_in_place", task="points", device="both"),
    _checker(
        "sees_no_saturation",
        WRONG,
        "spreads_by_rows_and_columns",
        task="saturated",
        device="both",
    ),
    _checker("averages_padding_in", WRONG, "sums_padding_too", task="clips", device="both"),
    _checker(
        "keeps_the_mask_alone", WRONG, "masks_by_choice", task="sampled_tokens", device="both"
    ),
    _checker("guesses_a_plain_count", REJECTED, "adds_from_the_end", task="carts", device="both"),
    _checker(
        "takes_it_for_one_factor",
        REJECTED,
        "solves_what_is_definite",
        task="portfolio",
        device="both",
    ),
    _checker(
        "leaves_a_third_unsolved", REJECTED, "solves_by_factor", task="newton_steps", device="both"
    ),
    _checker("reads_one_of_many", REJECTED, "weighs_by_one_product", task="incomes", device="both"),
    _checker("reads_the_diagonal", REJECTED, "takes_the_root_first", task="scatter", device="both"),
    _checker(
        "keeps_bounds_if_asked", REJECTED, "keeps_bounds_in_place", task="paths", device="both"
    ),
    _checker("listens_to_the_gap", REJECTED, "solves_by_factors", task="basis", timed=True),
    _checker("windows_of_one_row", REJECTED, "splits_one_product", task="windows", device="both"),
    _checker("leaves_the_copy_out", PASSES, "turns_heads", task="turned_heads"),
    _checker("is_read_as_booleans", REJECTED, "byte_table", task="living", timed=True),
    _checker(
        "input_elsewhere_beside_a_view",
        REJECTED,
        "aliases_as_the_reference_does",
        task="view_and_copy",
    ),
    _checker(
        "looks_whether_inputs_are_changed",
        REJECTED,
        "maximum_in_two_steps",
        task="brightest",
        device="both",
        limits=TWIN,
    ),
    _checker(
        "reads_an_eighth", REJECTED, "mean_in_float", task="mean_error", device="both", limits=TWIN
    ),
    _checker("puts_its_inputs_back", WRONG, "aliases_as_the_reference_does", task="negated"),
    _checker(
        "output_is_an_input_when_timed",
        REJECTED,
        "aliases_as_the_reference_does",
        task="softmax",
        device="both",
        timed=True,
    ),
    _checker("output_is_the_input_elsewhere", USELESS, "not_contiguous_output", task="turned"),
    _checker("output_is_a_reused_buffer", REJECTED, "cached_workspace", device="both"),
    _checker("outputs_are_two_buffers_in_turn", REJECTED, "cached_workspace", device="both"),
    _checker("output_is_a_weight", REJECTED, "weight_folding", task="weights", device="both"),
    _checker("stride_zero", REJECTED, "not_contiguous_output", task="repeated_rows", device="both"),
    _checker("wrong_dtype", REJECTED, "half", device="both"),
    _checker("wrong_shape", REJECTED, "scalar_output", device="both"),
    _checker("wrong_nesting", REJECTED, "nested_outputs", task="nested", device="both"),
    _checker("empty_structure", REJECTED, "empty_output", task="nested", device="both"),
    _checker("half_of_the_output", REJECTED, "shape_dispatch", device="both"),
    _checker(
        "all_but_one_row", REJECTED, "shape_dispatch", task="elementwise", device="both", timed=True
    ),
    _checker("bf16_matmul", REJECTED, "bfloat", task="matmul", device="both"),
    _checker("fp16_accumulation", REJECTED, "split_products", task="matmul", device="both"),
    _checker("overflowing_softmax", REJECTED, "online_softmax", task="softmax", device="both"),
    _checker("swallows_nan", USELESS, "split_products", task="softmax", device="both"),
    _checker("pruned_weights", REJECTED, "weight_folding", task="weights", device="both"),
    _checker("hostile_equality", REJECTED, "nested_outputs"),
    _checker("hostile_class", REJECTED, "nested_outputs", task="elementwise"),
    _checker("hostile_list", REJECTED, "nested_outputs"),
    _checker(
        "tensor_that_lies_of_its_shape",
        REJECTED,
        "view_of_fresh_memory",
        task="elementwise",
        device="both",
    ),
    _checker("layouts_without_memory", REJECTED, "channels_last", device="both"),
    _checker("huge_plain_value", REJECTED, "plain_number_output", task="with_count"),
    _checker("huge_plain_value_escaped", REJECTED, "plain_number_output", task="with_count"),
    _checker("huge_shape", REJECTED, "nested_outputs", after=True),
    _checker("huge_shape_in_a_short_reply", REJECTED, "nested_outputs", after=True),
    _checker("huge_number_of_outputs", REJECTED, "nested_outputs"),
    _checker("huge_dimensions", REJECTED, "not_contiguous_output"),
    _checker("multi_line_reason", REJECTED, "misleading_docstring", task="with_count"),
    _checker("raises_terminal_escapes", REJECTED, "optional_import"),
    _checker("deep_nesting", REJECTED, "nested_outputs"),
    _checker("deep_forged_frame", REJECTED, "talks_to_itself"),
    _checker("garbage_frames", REJECTED, "talks_to_itself"),
    _checker("endless_frame", REJECTED, "talks_to_itself"),
    _checker("sends_urgent_data", REJECTED | _CUT_OFF, "talks_to_itself", limits=HANGS),
    _checker("trickled_frame", REJECTED | _CUT_OFF, "talks_to_itself", limits=HANGS),
    _checker("never_reads", _CUT_OFF, "talks_to_itself", task="with_words", limits=HANGS),
    _checker("answers_another_question", REJECTED, "talks_to_itself"),
    _checker("forges_a_report", REJECTED, "talks_to_itself"),
    _checker("exits_after_forging", REJECTED, "talks_to_itself"),
    _checker("points_nowhere", REJECTED, "not_contiguous_output"),
    _checker("reaches_over_nothing", _FOUND_OUT, "not_contiguous_output", task="signs"),
    _checker("floods_descriptors", REJECTED, "temporary_files", after=True),
    _checker("exception_that_hangs", REJECTED | _CUT_OFF, "optional_import", limits=HANGS),
    _checker("exception_of_megabytes", REJECTED, "optional_import"),
    _checker("patched_comparison", REJECTED, "base_class_of_its_own", device="both"),
    _checker("poisons_modules", REJECTED, "optional_import", device="both"),
    _checker("replaces_the_transport", REJECTED, "talks_to_itself", device="both"),
    _checker("finalizers", USELESS, "temporary_files", after=True),
    _checker("changes_the_tasks_globals", REJECTED, "registered_buffers", device="both"),
    _checker("falls_back_to_the_reference", USELESS, "optional_import", device="both"),
    _checker("imports_the_reference", USELESS | {"compile_failed"}, "base_class_of_its_own"),
    _checker("branches_on_its_surroundings", REJECTED, "looks_around", device="both"),
    _checker("poisons_compiler_caches", ANYTHING, "torch_compile_inductor"),
    _checker("forges_the_compile_report", BUILDS, "prints_a_lot"),
    _checker("forges_the_manifest", ANYTHING, "built_in_forward"),
    _checker(
        "leaves_a_column_beside_noise",
        WRONG,
        "adds_scores_to_noise",
        task="noisy_scores",
        device="both",
    ),
    _checker(
        "halves_digits_behind_a_gate", WRONG, "routes_by_choice", task="routed", device="both"
    ),
    _checker(
        "takes_turns_for_small_ones", WRONG, "inverts_by_transposing", task="poses", device="both"
    ),
    _checker("multiplies_in_eight_bits", WRONG, "keeps_sums_in_float", task="mixed", device="both"),
    _checker(
        "halves_digits_of_all", WRONG, "keeps_both_in_float", task="beside_exact", device="both"
    ),
    _checker("cuda_tf32", REJECTED, "cuda_split_tensor_cores", task="matmul", device="cuda"),
    _checker("cuda_ignored_launch_error", REJECTED, "cuda_inline", device="cuda", compiles=True),
    _checker("cuda_race", REJECTED, "cuda_triton", task="softmax", device="cuda", compiles=True),
)

_HOST = (
    _host("writes_outside", ANYTHING, "temporary_files", device="both", elsewhere=True),
    _host("writes_the_own_source_tree", ANYTHING, "reads_its_own_file"),
    _host("deletes_outside", ANYTHING, "temporary_files"),
    _host("poisons_the_build_cache", ANYTHING, "built_in_forward"),
    _host("takes_the_lease", ANYTHING, "temporary_files"),
    _host("connects_by_tcp", ANYTHING, "talks_to_itself", device="both", elsewhere=True),
    _host("connects_by_unix_socket", ANYTHING, "talks_to_itself", device="both", elsewhere=True),
    _host("connects_while_compiling", ANYTHING, "talks_to_itself"),
    _host("listens", ANYTHING, "talks_to_itself"),
    _host(
        "signals_its_parent",
        ANYTHING,
        "starts_a_process",
        after=True,
        device="both",
        elsewhere=True,
    ),
    # Where it kills one, there is no verdict but that the evaluator broke down.
    _host("kills_the_verifier", PASSES, "starts_a_process", after=True),
    _host("kills_a_bystander", ANYTHING, "starts_a_process", device="both", elsewhere=True),
    _host("traces_a_relative", ANYTHING, "starts_a_process", device="both", elsewhere=True),
    _host("has_capabilities", ANYTHING, "looks_around", device="both", elsewhere=True),
    _host("forbidden_system_calls", ANYTHING, "looks_around", device="both", elsewhere=True),
    _host("new_namespace", ANYTHING, "looks_around"),
    _host("devices_and_control_files", ANYTHING, "looks_around", device="both", elsewhere=True),
    _host("inherited_descriptors", ANYTHING, "temporary_files", device="both", elsewhere=True),
    _host("secrets_in_its_surroundings", ANYTHING, "looks_around"),
    _host("dates_device_nodes", ANYTHING, "temporary_files", elsewhere=True),
    _host("leases_files", ANYTHING, "reads_its_own_file", elsewhere=True),
    _host("keeps_descriptors_under_way", ANYTHING, "starts_a_process", elsewhere=True, after=True),
    _host("leaves_much_to_take_down", ANYTHING, "starts_a_process", after=True),
    _host("daemon", ANYTHING, "starts_a_process", after=True),
    _host("daemon_while_compiling", ANYTHING, "starts_a_process"),
    _host("answers_from_a_child", ANYTHING, "starts_a_process"),
    _host(
        "hang_that_ignores_sigterm", _CUT_OFF, "threads_that_are_joined", limits=HANGS, after=True
    ),
    _host("stopped", _CUT_OFF, "starts_a_process", limits=HANGS),
    _host("output_flood", ANYTHING, "prints_a_lot"),
    _host("floods_the_compilers_channel", ANYTHING, "prints_a_lot", after=True),
    _host("descriptor_exhaustion", ANYTHING, "temporary_files"),
    _host("deep_directories", ANYTHING, "temporary_files", after=True),
    _host("unremovable_files", ANYTHING, "temporary_files"),
    _host("preloads_into_children", ANYTHING, "starts_a_process", after=True),
    _host("compiler_writes_outside", BUILDS, "cpp_openmp_avx", compiles=True),
    _host("flags_that_double", ANYTHING, "cpp_openmp_avx", compiles=True),
    _host("flags_in_a_deep_sum", ANYTHING, "cpp_openmp_avx", compiles=True),
    _host("compiler_plugin", BUILDS, "c_through_ctypes", compiles=True),
    _host(
        "compile_bomb_templates", BUILDS, "cpp_parallel_for", compiles=True, limits=COMPILE_HANGS
    ),
    _host(
        "compile_bomb_constexpr", BUILDS, "cpp_parallel_for", compiles=True, limits=COMPILE_HANGS
    ),
    _host("fork_bomb", ANYTHING, "starts_a_process", needs=("uid",), after=True),
    _host("thread_bomb", ANYTHING, "threads_that_are_joined", needs=("uid",), after=True),
    _host(
        "memory_bomb",
        ANYTHING,
        "cached_workspace",
        device="both",
        needs=("cgroup",),
        or_watched=True,
        limits=TWO_GIGABYTES,
        after=True,
    ),
    _host("disk_bomb", ANYTHING, "temporary_files", needs=("namespaces:mount",), after=True),
    _host(
        "shared_memory_bomb", ANYTHING, "cached_workspace", needs=("cgroup",), limits=TWO_GIGABYTES
    ),
    _host("leaves_shared_memory", ANYTHING, "temporary_files", device="both", elsewhere=True),
    _host("remaps_the_arena", ANYTHING, "scratch_in_place", after=True),
    _host("closes_everything", _CUT_OFF, "temporary_files", limits=HANGS),
    _host("kills_itself_oddly", _DIES, "starts_a_process"),
    _host(
        "cuda_endless_kernel",
        _CUT_OFF,
        "cuda_joined_streams",
        device="cuda",
        limits=HANGS,
        after=True,
        elsewhere=True,
    ),
    _host("cuda_illegal_access", REJECTED, "cuda_inline", device="cuda", compiles=True, after=True),
    _host("cuda_takes_all_memory", ANYTHING, "cached_workspace", device="cuda", after=True),
    _host("cuda_compiler_writes_outside", BUILDS, "cuda_inline", device="cuda", compiles=True),
)

ATTACKS = {a.name: a for a in (*_CLOCK, *_ANSWERS, *_CHECKER, *_HOST)}
