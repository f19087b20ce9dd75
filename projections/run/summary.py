"""What is said of a run in one record, as ``Overview.summary`` makes it: data, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from events.bodies import GivenKernel
from events.outcomes import ScoredBy, SetScore
from projections.run.pool import PoolSummary
from projections.run.steering import Steered

__all__ = ["Awaited", "Best", "Fork", "Summary"]


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest correct candidate, against the root's eager runtime."""

    node: int
    runtime_ms: float
    baseline_ms: float
    speedup: float
    source_sha256: str
    speedups: dict[str, float] = {}
    """Over each baseline that was measured, eager among them."""
    given: bool = False
    """It is the user's kernel, which no model wrote."""
    labels: list[str] = []
    """What to know beside its speedup."""
    peak_bytes: int | None = None
    reference_peak_bytes: int | None = None
    memory_ratio: float | None = None
    score: ScoredBy = "device"
    """Which speedup it is the best by."""
    eager_speedup: float | None = None
    """Of calls in a plain Python loop; null where it is ``speedup``, or was not measured."""
    eager_ms: float | None = None
    first_call_ms: float | None = None
    worst_set: SetScore | None = None
    """The input set on which it is slowest; null where there is one set of inputs."""

    @property
    def scored(self) -> float:
        """The speedup that the run goes by."""
        eager = self.eager_speedup if self.score == "eager" else None
        return self.speedup if eager is None else eager


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run left its parent; of a fork's fork, the last. ``shared_*`` is part of the
    run's sums, but was the parent's work; ``*_replies`` came since."""

    parent: str
    at: int
    changed: dict[str, Any]
    replies: str
    evaluations: str
    shared_attempts: int
    shared_cost_usd: float
    recorded_replies: int = 0
    live_replies: int = 0
    recorded_evaluations: int = 0
    new_evaluations: int = 0


class Awaited(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose reply comes later: in the directory ``place``, or in a batch.

    ``doubt`` is what was wrong with a file that answers it, if there was one; ``rejection``, why
    the reply before could not be used, where it asks again.
    """

    name: str
    attempt: int
    role: str
    place: str
    batch: str | None = None
    doubt: str | None = None
    rejection: str | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What ``engine run --json`` ends with."""

    run: str
    log: str
    status: str
    reason: str
    attempts: int
    """All that count toward the budget, the user's kernel too."""
    attempts_by_agents: int
    """Of these, what ``abandoned``, ``compiled`` and ``correct`` count."""
    abandoned: int
    compiled: int
    correct: int
    best: Best | None
    cost_usd: float
    unpriced_calls: int
    uncounted_calls: int
    tokens: dict[str, int]
    device_s: float
    """For which devices were leased."""
    wall_s: float
    """At work: not between two processes."""
    canned: bool
    quarantined: dict[str, str] = {}
    baselines: dict[str, float | None] = {}
    """Runtime in milliseconds of each; null where a compiled one failed."""
    audit: list[str] | None = None
    """What the task's audit found (``BaselineMeasured.audit``); null where there was none."""
    pool: PoolSummary | None = None
    fork: Fork | None = None
    steered: Steered | None = None
    """Steering in force."""
    duplicates: int = 0
    """Attempts that repeat an earlier one's source and have its verdict."""
    cached_verdicts: int = 0
    """Verdicts that an earlier run had kept."""
    saved_tokens_estimate: int = 0
    """Output tokens of source that replies of replacements did not have to repeat."""
    awaited: list[Awaited] = []
    given: GivenKernel | None = None
    """The user's kernel, attempt 1."""
