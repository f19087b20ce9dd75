"""The rows of the flat tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

__all__ = [
    "CallRecord", "EvaluationRecord", "Frames", "ImplementationRecord", "NodeRecord", "RunRecord",
    "SignatureRecord", "columns",
]  # fmt: skip


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run at a glance; what isn't known yet is null."""

    run: str
    log: str
    task: str | None
    task_sha256: str | None
    started_us: int | None
    parent: str | None
    """A fork's parent (uid), with which it shares the events up to ``parent_seq``."""
    parent_seq: int | None
    status: str
    reason: str
    method: str | None
    seed: int | None
    model: str | None
    device: str | None
    device_name: str | None
    protocol: str | None
    canned: bool
    attempts: int
    attempts_by_agents: int
    """Without the user's kernel: what ``compiled`` and ``correct`` are of."""
    abandoned: int
    compiled: int
    correct: int
    eager_ms: float | None
    best_node: int | None
    best_ms: float | None
    best_speedup: float | None
    best_labels: str
    """What to know beside it, with commas between; likewise ``labels`` below."""
    score: str
    """What the best is the best by: ``device`` or ``eager``."""
    best_eager_speedup: float | None
    usd_micros: int
    unpriced_calls: int
    input_tokens: int
    output_tokens: int
    wall_s: float


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The root (0) or an attempt. ``speedup`` is over the root's eager runtime."""

    run: str
    node: int
    parent: int | None
    rule: str | None
    repair: bool
    status: str
    outcome: str | None
    reason: str
    runtime_ms: float | None
    speedup: float | None
    eager_speedup: float | None
    labels: str
    source_sha256: str | None
    source_key: str | None
    selected_us: int
    ended_us: int | None


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a model. ``state`` is replied, failed or unanswered; ``parsed`` says
    whether a reply was usable; ``usd_micros`` is null without a price or a usage, which a failed
    one has where the server said it."""

    run: str
    call: int
    try_: int = msgspec.field(name="try")
    node: int
    run_seq: int
    epoch: int
    ts_us: int
    role: str
    ask: int
    model: str
    template: str
    state: str = "unanswered"
    error: str | None = None
    message: str | None = None
    stop_reason: str | None = None
    served_by: str | None = None
    canned: bool = False
    reused: int | None = None
    latency_ms: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    usd_micros: int | None = None
    parsed: bool | None = None
    rejection: str | None = None
    reply_sha256: str | None = None


class EvaluationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict. From ``runtime_ms`` to ``memory_ratio`` only correct ones have values."""

    run: str
    node: int
    run_seq: int
    ts_us: int
    outcome: str
    reason: str
    runtime_ms: float | None
    speedup: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    pairs: int | None
    candidate_ms: float | None
    baseline_ms: float | None
    bounded_speedup: float | None
    eager_speedup: float | None
    eager_low: float | None
    eager_high: float | None
    eager_ms: float | None
    eager_baseline_ms: float | None
    first_call_ms: float | None
    peak_bytes: int | None
    reference_peak_bytes: int | None
    memory_ratio: float | None
    labels: str
    sets: str
    max_abs_error: float | None
    protocol: str
    device: str
    guard_s: float | None
    compile_s: float | None
    queue_s: float
    lease_s: float | None
    check_s: float | None
    bench_s: float | None
    compile_log_sha256: str | None
    run_log_sha256: str | None
    registers: int | None
    """Of the kernel that takes most, as ``spill_bytes``; null where nothing was reported."""
    spill_bytes: int | None
    resources: str
    """JSON: what the assembler reported of each kernel."""
    reused: int | None
    """In a fork, the parent's event that the verdict was taken from."""
    same_as: int | None
    """The earlier node with the same source that it was taken from."""
    cached: bool
    """An earlier run's, which was kept."""


class ImplementationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at an instruction, which is called by the attempt that it was given for.

    ``number`` counts the attempts at it from 1; above 1 they are repairs. ``edits_*`` are changed
    lines, null where plan and source can't be read or there is none.
    """

    run: str
    instruction: int
    number: int
    node: int
    status: str
    outcome: str | None
    runtime_ms: float | None
    edits_inside: int | None
    edits_allowed: int | None
    edits_outside: int | None
    inside_share: float | None
    grounded: bool | None


class SignatureRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A failure signature that was recognised (``projections.search.signatures`` defines them).

    ``node`` is the instruction's attempt, the dead node, or the root; ``count`` its attempts, its
    failed children, or the candidates that were judged. ``closed_by`` is a gap's, ``pruned`` a
    dead branch's.
    """

    run: str
    signature: Literal["planning_implementation_gap", "dead_branch", "root_dominance"]
    node: int
    count: int
    closed_by: int | None = None
    pruned: bool | None = None


class Frames(msgspec.Struct, kw_only=True):
    """The tables, as lists of records."""

    runs: list[RunRecord] = []
    nodes: list[NodeRecord] = []
    calls: list[CallRecord] = []
    evaluations: list[EvaluationRecord] = []
    implementations: list[ImplementationRecord] = []
    signatures: list[SignatureRecord] = []


def columns(records: Sequence[msgspec.Struct]) -> dict[str, list[Any]]:
    """Column name → values: what ``pandas.DataFrame`` and ``polars.DataFrame`` take."""
    if not records:
        return {}
    fields = msgspec.structs.fields(records[0])
    return {
        field.encode_name: [getattr(record, field.name) for record in records] for field in fields
    }
