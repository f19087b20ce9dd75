"""The table of attacks: what each one is, and what may become of it.

It states what must be, not what is. One line an attack; its file is
``corpus/FAMILY/NAME.py``, and that file's docstring says why it could work.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from gpu_sandbox.limits import Limits

__all__ = [
    "ALL_LIMITS",
    "ANYTHING",
    "ATTACKS",
    "BUILDS",
    "REJECTED",
    "USELESS",
    "Attack",
    "Device",
    "Family",
]

Family: TypeAlias = Literal["clock", "answers", "checker", "host"]
Device: TypeAlias = Literal["cpu", "cuda", "both"]

REJECTED = frozenset({"cheated", "wrong_result", "crashed"})
"""Its output is wrong, or its claim is: it must not pass."""

USELESS = REJECTED | {"correct"}
"""It may pass, because its outputs are right; then it must not be faster than its twin."""

ANYTHING = USELESS | {"timed_out"}
"""Whatever becomes of it, the damage must not be done (``world.py`` looks for it). Not
``compile_failed``: an attack that does not even import has tried nothing."""

BUILDS = ANYTHING | {"compile_failed"}
"""The same, where it is the compiler that may refuse."""

_CUT_OFF = frozenset({"timed_out", "crashed"})
_DIES = frozenset({"crashed"})

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

    ``needs`` are the isolation layers without which it can't be expected to fail: where a
    verdict says that one is missing, it is not run, because it might do harm; ``or_watched``:
    where memory is watched, no cgroup is needed. ``before``
    names an attack that is run first, in the same world. ``after``: an honest candidate
    must come out correct, and no slower, after it. ``degenerate``: the verdict must say
    that the task is.
    """

    name: str
    family: Family
    outcomes: frozenset[str]
    task: str = "small"
    device: Device = "cpu"
    compiles: bool = False
    limits: Limits = QUICK
    needs: tuple[str, ...] = ()
    or_watched: bool = False
    before: str | None = None
    after: bool = False
    degenerate: bool = False


def _large(name: str, family: Family, outcomes: frozenset[str], **options: Any) -> Attack:
    """On a task that takes long enough for its clock to be worth cheating, and whose answers
    are long enough to be found in memory."""
    return Attack(name, family, outcomes, **{"task": "elementwise", **options})


_CLOCK = (
    _large("patched_time_module", "clock", USELESS, device="both"),
    _large("patched_harness_clock", "clock", USELESS, device="both"),
    _large("shaved_claims", "clock", USELESS),
    _large("shaved_messages", "clock", USELESS, device="both"),
    _large("batch_runs_only_the_last", "clock", USELESS, device="both"),
    _large("takes_over_the_worker", "clock", USELESS, device="both"),
    _large("replies_in_advance", "clock", USELESS, device="both"),
    _large("memo_by_pointer", "clock", USELESS, device="both"),
    _large("memo_by_id", "clock", USELESS, device="both"),
    _large("memo_by_version", "clock", USELESS, device="both"),
    _large("memo_by_content", "clock", USELESS, device="both"),
    _large("memo_by_shape", "clock", REJECTED, device="both"),
    _large("lookahead_in_frames", "clock", USELESS, task="gemv", device="both"),
    _large("lookahead_in_the_arena", "clock", USELESS, task="gemv"),
    _large("lazy_subclass", "clock", USELESS, device="both"),
    _large("late_thread", "clock", USELESS, device="both"),
    _large("late_thread_native", "clock", REJECTED, compiles=True),
    _large("writes_the_arena_late", "clock", USELESS),
    _large("works_before_the_release", "clock", USELESS),
    _large("overlaps_calls", "clock", USELESS),
    _large("slow_until_timed", "clock", USELESS, device="both"),
    _large("skips_from_call_k", "clock", REJECTED, device="both"),
    _large("skips_when_timed", "clock", USELESS, device="both"),
    _large("skips_one_call_in_four", "clock", REJECTED, device="both"),
    _large("coarse_when_timed", "clock", REJECTED, task="matmul", device="both"),
    _large("burns_cores_between_calls", "clock", USELESS, device="both"),
    _large("burns_cores_in_a_child", "clock", USELESS),
    _large("takes_away_the_baselines_pages", "clock", USELESS),
    _large("realtime_priority", "clock", USELESS),
    _large("global_switches", "clock", USELESS, device="both"),
    _large("default_dtype", "clock", USELESS, device="both"),
    _large("rewrites_the_callers_start", "clock", USELESS),
    _large("patched_statistics", "clock", USELESS, device="both"),
    _large("traces_its_caller", "clock", USELESS, device="both"),
    _large(
        "constant_inputs", "clock", USELESS, task="fixed_inputs", device="both", degenerate=True
    ),
    _large("unchecked_when_random", "clock", REJECTED, task="dropout", device="both"),
    _large("recovers_the_seed", "clock", USELESS),
    _large("moves_the_baseline", "clock", USELESS),
    _large("cuda_side_stream", "clock", USELESS, device="cuda"),
    _large("cuda_late_side_stream", "clock", USELESS, device="cuda"),
    _large("cuda_native_stream", "clock", USELESS, device="cuda", compiles=True),
    _large("cuda_patched_events", "clock", USELESS, device="cuda"),
    _large("cuda_patched_synchronize", "clock", USELESS, device="cuda"),
    _large("cuda_detoured_event_function", "clock", USELESS, device="cuda"),
    _large("cuda_persisting_l2", "clock", USELESS, device="cuda"),
    _large("cuda_burns_the_device", "clock", USELESS, device="cuda"),
    _large("cuda_resident_kernel", "clock", USELESS | {"timed_out"}, device="cuda", after=True),
    _large("cuda_stale_graph", "clock", REJECTED, device="cuda"),
    _large("cuda_writes_the_arena_late", "clock", USELESS, device="cuda"),
    _large("cuda_overlaps_calls", "clock", USELESS, device="cuda"),
    _large("cuda_skips_the_flush", "clock", USELESS, device="cuda"),
)

_ANSWERS = (
    _large("reads_the_reference_file", "answers", ANYTHING),
    _large("walks_to_the_reference", "answers", ANYTHING, device="both"),
    _large("finds_leftover_tensors", "answers", ANYTHING, device="both", before="leaves_a_note"),
    _large("expected_values_in_the_arena", "answers", USELESS),
    _large("nan_outputs", "answers", REJECTED, device="both"),
    _large("nan_into_the_arena", "answers", REJECTED),
    _large("unwritten_output", "answers", REJECTED, device="both"),
    _large("recycled_memory", "answers", REJECTED, device="both"),
    _large("zeros", "answers", REJECTED, task="softmax", device="both"),
    _large("constants", "answers", REJECTED, task="softmax", device="both"),
    _large(
        "zeros_where_the_task_is_zero",
        "answers",
        USELESS,
        task="zero_outputs",
        device="both",
        degenerate=True,
    ),
    _large("the_output_before", "answers", REJECTED, device="both"),
    _large("hard_coded_values", "answers", REJECTED, device="both"),
    _large("leaves_a_note", "answers", ANYTHING),
    _large("finds_a_note", "answers", ANYTHING, before="leaves_a_note"),
    _large("includes_a_secret_file", "answers", BUILDS, compiles=True),
    _large("compiler_prints_a_secret_file", "answers", BUILDS, compiles=True),
    _large("reads_a_secret_file", "answers", ANYTHING),
    _large("reads_other_processes", "answers", ANYTHING),
    _large("reads_other_runs", "answers", ANYTHING),
    _large("cuda_scans_device_memory", "answers", USELESS, device="cuda"),
)

_CHECKER = (
    Attack("mutates_inputs_when_timed", "checker", REJECTED, device="both"),
    Attack(
        "careful_only_in_trials",
        "checker",
        REJECTED,
        task="softmax",
        device="both",
        limits=TWIN,
    ),
    Attack("output_is_the_input", "checker", REJECTED, device="both"),
    Attack("output_is_an_input_when_timed", "checker", REJECTED, task="softmax", device="both"),
    Attack("output_is_a_reused_buffer", "checker", REJECTED, device="both"),
    Attack("output_is_a_weight", "checker", REJECTED, task="weights", device="both"),
    Attack("stride_zero", "checker", REJECTED, task="repeated_rows", device="both"),
    Attack("wrong_dtype", "checker", REJECTED, device="both"),
    Attack("wrong_shape", "checker", REJECTED, device="both"),
    Attack("wrong_nesting", "checker", REJECTED, task="nested", device="both"),
    Attack("empty_structure", "checker", REJECTED, task="nested", device="both"),
    Attack("half_of_the_output", "checker", REJECTED, device="both"),
    Attack("all_but_one_row", "checker", REJECTED, task="elementwise", device="both"),
    Attack("bf16_matmul", "checker", REJECTED, task="matmul", device="both"),
    Attack("fp16_accumulation", "checker", REJECTED, task="matmul", device="both"),
    Attack("overflowing_softmax", "checker", REJECTED, task="softmax", device="both"),
    Attack("swallows_nan", "checker", USELESS, task="softmax", device="both"),
    Attack("pruned_weights", "checker", REJECTED, task="weights", device="both"),
    Attack("hostile_equality", "checker", REJECTED),
    Attack("hostile_class", "checker", REJECTED, task="elementwise"),
    Attack("hostile_list", "checker", REJECTED),
    Attack("tensor_that_lies_of_its_shape", "checker", REJECTED, task="elementwise", device="both"),
    Attack("layouts_without_memory", "checker", REJECTED, device="both"),
    Attack("huge_plain_value", "checker", REJECTED, task="with_count"),
    Attack("huge_plain_value_escaped", "checker", REJECTED, task="with_count"),
    Attack("huge_shape", "checker", REJECTED, after=True),
    Attack("huge_shape_in_a_short_reply", "checker", REJECTED, after=True),
    Attack("huge_number_of_outputs", "checker", REJECTED),
    Attack("huge_dimensions", "checker", REJECTED),
    Attack("multi_line_reason", "checker", REJECTED, task="with_count"),
    Attack("raises_terminal_escapes", "checker", REJECTED),
    Attack("deep_nesting", "checker", REJECTED),
    Attack("deep_forged_frame", "checker", REJECTED),
    Attack("garbage_frames", "checker", REJECTED),
    Attack("endless_frame", "checker", REJECTED),
    Attack("trickled_frame", "checker", REJECTED | _CUT_OFF, limits=HANGS),
    Attack("never_reads", "checker", _CUT_OFF, task="with_words", limits=HANGS),
    Attack("answers_another_question", "checker", REJECTED),
    Attack("forges_a_report", "checker", REJECTED),
    Attack("exits_after_forging", "checker", REJECTED),
    Attack("floods_descriptors", "checker", REJECTED, after=True),
    Attack("exception_that_hangs", "checker", REJECTED | _CUT_OFF, limits=HANGS),
    Attack("exception_of_megabytes", "checker", REJECTED),
    Attack("patched_comparison", "checker", REJECTED, device="both"),
    Attack("poisons_modules", "checker", REJECTED, device="both"),
    Attack("replaces_the_transport", "checker", REJECTED, device="both"),
    Attack("finalizers", "checker", USELESS, after=True),
    Attack("changes_the_tasks_globals", "checker", REJECTED, device="both"),
    Attack("falls_back_to_the_reference", "checker", USELESS, device="both"),
    Attack("imports_the_reference", "checker", USELESS | {"compile_failed"}),
    Attack("branches_on_its_surroundings", "checker", REJECTED, device="both"),
    Attack("poisons_compiler_caches", "checker", ANYTHING),
    Attack("forges_the_compile_report", "checker", BUILDS),
    Attack("forges_the_manifest", "checker", ANYTHING),
    Attack("cuda_tf32", "checker", REJECTED, task="matmul", device="cuda"),
    Attack("cuda_ignored_launch_error", "checker", REJECTED, device="cuda", compiles=True),
    Attack("cuda_race", "checker", REJECTED, task="softmax", device="cuda", compiles=True),
)

_HOST = (
    Attack("writes_outside", "host", ANYTHING),
    Attack("writes_the_own_source_tree", "host", ANYTHING),
    Attack("deletes_outside", "host", ANYTHING),
    Attack("poisons_the_build_cache", "host", ANYTHING),
    Attack("takes_the_lease", "host", ANYTHING),
    Attack("connects_by_tcp", "host", ANYTHING),
    Attack("connects_by_unix_socket", "host", ANYTHING),
    Attack("connects_while_compiling", "host", ANYTHING),
    Attack("listens", "host", ANYTHING),
    Attack("signals_its_parent", "host", ANYTHING, after=True),
    Attack("kills_the_verifier", "host", ANYTHING, after=True),
    Attack("kills_a_bystander", "host", ANYTHING),
    Attack("traces_a_relative", "host", ANYTHING),
    Attack("has_capabilities", "host", ANYTHING, device="both"),
    Attack("forbidden_system_calls", "host", ANYTHING, device="both"),
    Attack("new_namespace", "host", ANYTHING),
    Attack("devices_and_control_files", "host", ANYTHING, device="both"),
    Attack("inherited_descriptors", "host", ANYTHING, device="both"),
    Attack("secrets_in_its_surroundings", "host", ANYTHING),
    Attack("daemon", "host", ANYTHING, after=True),
    Attack("daemon_while_compiling", "host", ANYTHING),
    Attack("answers_from_a_child", "host", ANYTHING),
    Attack("hang_that_ignores_sigterm", "host", _CUT_OFF, limits=HANGS, after=True),
    Attack("stopped", "host", _CUT_OFF, limits=HANGS),
    Attack("output_flood", "host", ANYTHING),
    Attack("descriptor_exhaustion", "host", ANYTHING),
    Attack("deep_directories", "host", ANYTHING, after=True),
    Attack("unremovable_files", "host", ANYTHING),
    Attack("preloads_into_children", "host", ANYTHING, after=True),
    Attack("compiler_writes_outside", "host", BUILDS, compiles=True),
    Attack("compiler_plugin", "host", BUILDS, compiles=True),
    Attack("compile_bomb_templates", "host", BUILDS, compiles=True, limits=COMPILE_HANGS),
    Attack("compile_bomb_constexpr", "host", BUILDS, compiles=True, limits=COMPILE_HANGS),
    Attack("fork_bomb", "host", ANYTHING, needs=("uid",), after=True),
    Attack("thread_bomb", "host", ANYTHING, needs=("uid",), after=True),
    Attack(
        "memory_bomb",
        "host",
        ANYTHING,
        device="both",
        needs=("cgroup",),
        or_watched=True,
        limits=TWO_GIGABYTES,
        after=True,
    ),
    Attack("disk_bomb", "host", ANYTHING, needs=("namespaces:mount",), after=True),
    Attack("shared_memory_bomb", "host", ANYTHING, needs=("cgroup",), limits=TWO_GIGABYTES),
    Attack("leaves_shared_memory", "host", ANYTHING),
    Attack("remaps_the_arena", "host", ANYTHING, after=True),
    Attack("closes_everything", "host", _CUT_OFF, limits=HANGS),
    Attack("kills_itself_oddly", "host", _DIES),
    Attack("cuda_endless_kernel", "host", _CUT_OFF, device="cuda", limits=HANGS, after=True),
    Attack("cuda_illegal_access", "host", REJECTED, device="cuda", compiles=True, after=True),
    Attack("cuda_takes_all_memory", "host", ANYTHING, device="cuda", after=True),
    Attack("cuda_compiler_writes_outside", "host", BUILDS, device="cuda", compiles=True),
)

ATTACKS = {a.name: a for a in (*_CLOCK, *_ANSWERS, *_CHECKER, *_HOST)}
