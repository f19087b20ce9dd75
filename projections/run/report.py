"""Everything that a report on one run says, as data: made from the log and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from events.bodies import AgentReplied, EvaluationRequested
from events.envelope import Event
from events.outcomes import CompileFailed, Correct, NoCandidate, SetScore
from projections.candidate.labels import DEGENERATE
from projections.candidate.memory import memory_ratio
from projections.run.overview import Overview
from projections.run.spend import RoleSpend, priced_by
from projections.run.summary import Summary
from projections.run.team import models_of
from projections.search.failures import FailureClass, Failures
from projections.search.instructions import Edits, Fidelity, fidelity_of, instructions_of
from projections.search.planners import PlannerSummary
from projections.search.signatures import Signatures, signatures_of
from projections.search.steps import Step, Steps
from projections.search.tree import ROOT, Node

__all__ = ["Funnel", "Ranked", "Report", "ReportFold", "StageTime", "report_of"]


class Funnel(msgspec.Struct, frozen=True, kw_only=True):
    """How many of some attempts came how far; each number is part of the one before.

    ``proposed``: a candidate went to the sandbox; ``faster``: faster than eager.
    """

    attempts: int
    proposed: int
    compiled: int
    correct: int
    faster: int


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """A place on the leaderboard. ``ratio_*`` is the interval of the paired ratio to eager."""

    rank: int
    node: int
    parent: int
    made: str
    """As in ``projections.search.tree.Node``."""
    runtime_ms: float
    speedup: float
    speedups: dict[str, float]
    ratio_low: float
    ratio_high: float
    source_sha256: str
    labels: list[str]
    eager_speedup: float | None = None
    worst_set: SetScore | None = None
    eager_ms: float | None = None
    peak_bytes: int | None = None
    reference_peak_bytes: int | None = None
    memory_ratio: float | None = None


class StageTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds summed over all attempts, which overlap; ``share`` is of all such seconds."""

    stage: str
    seconds: float
    share: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``funnel`` has ``all`` that agents made, and each way of making a candidate by
    itself, the user's kernel too."""

    summary: Summary
    task: str
    device: str
    models: dict[str, str]
    """Role → the model that it is configured to ask."""
    funnel: dict[str, Funnel]
    leaderboard: list[Ranked]
    degenerate: list[Ranked]
    """The same of results that say little, since their task is degenerate: ranked by
    themselves."""
    steps: list[Step]
    spend: dict[str, RoleSpend]
    prices: str
    """Where they are from: the table's date, ``configuration``; empty where nothing is paid."""
    planners: dict[str, PlannerSummary]
    """What became of each planner model's plans."""
    failures: list[FailureClass]
    call_failures: list[FailureClass]
    signatures: Signatures
    fidelity: Fidelity | None
    """None where no role was given an instruction."""
    stages: list[StageTime]


class ReportFold:
    """A fold over one run's events that owns mutable state."""

    def __init__(self) -> None:
        self.failures = Failures()
        self._steps = Steps()
        self._proposed: set[int] = set()
        self._latency_s: dict[str, float] = {}

    @property
    def overview(self) -> Overview:
        return self._steps.overview

    def apply(self, event: Event) -> None:
        """Fold one event."""
        body = event.body
        self._steps.apply(event)
        self.failures.apply(body)
        match body:
            case EvaluationRequested():
                self._proposed.add(body.attempt)
            case AgentReplied():
                earlier = self._latency_s.get(body.role, 0.0)
                self._latency_s[body.role] = earlier + body.latency_ms / 1000

    def report(self, summary: Summary, edits: Mapping[int, Edits] | None = None) -> Report:
        """``summary`` is the overview's, which knows how the log is called; ``edits`` are those
        that could be counted, by node."""
        tree = self.overview.tree
        instructions = instructions_of(tree)
        started = self.overview.started
        device = started.config["sandbox"]["device"] if started else ""
        named = started.device.get("name") if started else None
        models = models_of(started.config) if started else {}
        nodes = list(self.overview.tree.leaderboard())
        return Report(
            summary=summary,
            task=started.task_name if started else "",
            device=f"{device} ({named})" if named else device,
            models=models,
            funnel=self._funnels(),
            leaderboard=list(self._ranked(n for n in nodes if DEGENERATE not in n.labels)),
            degenerate=list(self._ranked(n for n in nodes if DEGENERATE in n.labels)),
            steps=list(self._steps.found),
            spend=self.overview.spend.roles,
            prices=priced_by(started) if started else "",
            planners={model: arm.summary() for model, arm in self.overview.planners.arms.items()},
            failures=self.failures.candidates,
            call_failures=self.failures.calls,
            signatures=signatures_of(self.overview, instructions),
            fidelity=fidelity_of(tree, instructions, edits or {}) if instructions else None,
            stages=self._stages(),
        )

    def _funnels(self) -> dict[str, Funnel]:
        nodes = [node for node in self.overview.tree.nodes.values() if node.id != ROOT]
        made = dict.fromkeys(node.made for node in nodes)
        split = {way: self._funnel([n for n in nodes if n.made == way]) for way in made}
        agents = [node for node in nodes if node.made != "user"]
        return {"all": self._funnel(agents), **(split if len(split) > 1 else {})}

    def _funnel(self, nodes: list[Node]) -> Funnel:
        root_ms = self.overview.tree.root.score_ms if self.overview.tree.nodes else None
        built = [n for n in nodes if n.outcome and not isinstance(n.outcome, _UNBUILT)]
        correct = [n.score_ms for n in built if n.score_ms is not None]
        return Funnel(
            attempts=len(nodes),
            proposed=sum(node.id in self._proposed for node in nodes),
            compiled=len(built),
            correct=len(correct),
            faster=sum(root_ms is not None and score < root_ms for score in correct),
        )

    def _ranked(self, nodes: Iterable[Node]) -> Iterator[Ranked]:
        root_ms = self.overview.tree.root.runtime_ms if self.overview.tree.nodes else None
        measured = self.overview.baselines.values()
        for rank, node in enumerate(nodes, 1):
            assert isinstance(node.outcome, Correct)
            runtime = node.outcome.runtime_ms
            peak, reference_peak = node.outcome.peak_bytes, node.outcome.reference_peak_bytes
            yield Ranked(
                rank=rank,
                node=node.id,
                parent=node.parent or ROOT,
                made=node.made,
                runtime_ms=runtime,
                speedup=root_ms / runtime if root_ms else node.outcome.speedup,
                speedups={b.baseline: b.runtime_ms / runtime for b in measured if b.runtime_ms},
                ratio_low=node.outcome.ratio_low,
                ratio_high=node.outcome.ratio_high,
                source_sha256=node.source_sha256 or "",
                labels=node.labels,
                eager_speedup=node.outcome.eager_speedup,
                eager_ms=node.outcome.eager_ms,
                worst_set=node.outcome.worst_set,
                peak_bytes=peak,
                reference_peak_bytes=reference_peak,
                memory_ratio=memory_ratio(peak, reference_peak),
            )

    def _stages(self) -> list[StageTime]:
        pool = self.overview.pool.summary(self.overview.wall_us / 1_000_000)
        parts: tuple[str, ...] = ("compile", "queue", "check", "bench")
        seconds = dict(self._latency_s)
        if pool is not None:
            if pool.seconds["prepare"]:
                parts = ("compile", "prepare", "queue", "check", "bench")
            seconds |= {part: pool.seconds[part] for part in parts}
            within = pool.seconds["check"] + pool.seconds["bench"]
            seconds["lease, other"] = max(0.0, pool.seconds["lease"] - within)
        whole = sum(seconds.values())
        return [
            StageTime(stage=stage, seconds=s, share=s / whole if whole else 0.0)
            for stage, s in seconds.items()
        ]


_UNBUILT = (CompileFailed, NoCandidate)


def report_of(events: Iterable[Event], *, run: str, log: str, writer_alive: bool = False) -> Report:
    """The report after these events."""
    fold = ReportFold()
    for event in events:
        fold.apply(event)
    return fold.report(fold.overview.summary(run=run, log=log, writer_alive=writer_alive))
