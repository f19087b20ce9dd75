"""The search tree: every attempt as a node below the node that it was made from.

A fold that owns mutable state: copying the tree for each event would be quadratic. The
search itself runs on this projection, so that what is shown is what was searched.

A node's id is its attempt's number; the root is 0 and holds the reference module. An
attempt is its parent's child from its selection on; an abandoned one leaves no child.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

import msgspec

from events.bodies import (
    AttemptAbandoned,
    BaselineMeasured,
    Body,
    EvaluationFinished,
    EvaluationRequested,
    GivenKernel,
    NodeSelected,
    ReplyParsed,
    ReplyRejected,
    RunForked,
    RunStarted,
)
from events.observations import Observations
from events.outcomes import Correct, KernelResources, Outcome, ScoredBy
from projections.candidate.labels import labels_of
from projections.run.team import improvers
from projections.search.ancestry import Ancestry
from projections.search.ranking import Ranking

__all__ = ["ROOT", "Node", "Tree", "fold_tree"]

ROOT = 0


class Node(msgspec.Struct, kw_only=True):
    """One attempt. ``children`` holds evaluated ones and those in flight, ascending."""

    id: int
    parent: int | None
    repair: bool = False
    made: str = ""
    """Its makers: ``plan+code``, ``debug``, ``single``, or ``user`` for the kernel that the run was
    given; empty for the root."""
    status: Literal["expanding", "evaluated", "abandoned"] = "expanding"
    children: list[int] = []
    evaluated_children: int = 0
    failed_children: int = 0
    source_sha256: str | None = None
    source_key: str | None = None
    advice_sha256: str | None = None
    annotated_sha256: str | None = None
    explanation_sha256: str | None = None
    compile_log_sha256: str | None = None
    run_log_sha256: str | None = None
    spliced: bool = False
    """Its source is its parent's with the marked blocks replaced."""
    resources: list[KernelResources] = []
    observations: Observations | None = None
    outcome: Outcome | None = None
    same_as: int | None = None
    """The earlier node with the same source, whose verdict this one has."""
    runtime_ms: float | None = None
    """None while unknown and for every failure."""
    score_ms: float | None = None
    """What it is ranked by, lower is better: ``runtime_ms``, or the root's runtime over its eager
    speedup, as ``search.score`` says."""
    reason: str = ""
    """Why the attempt was abandoned."""
    rejection: str = ""
    """Why the last reply could not be used; empty where it could."""
    labels: list[str] = []
    """Of a correct one, or the root's eager baseline: what to know beside its runtime. ``outcome``
    has those that were logged, which are what agents were shown."""

    @property
    def evaluated(self) -> bool:
        return self.status == "evaluated"

    @property
    def failed(self) -> bool:
        """HasBug: evaluated, and not correct."""
        return self.evaluated and self.runtime_ms is None

    def is_dead(self, most: int) -> bool:
        """A dead branch: more than ``most`` children were evaluated, and all of them failed."""
        return self.evaluated_children > most and self.failed_children == self.evaluated_children

    @property
    def abandoned_because(self) -> str:
        """``reason``, with that of the reply that could not be used."""
        return f"{self.reason}: {self.rejection}" if self.rejection else self.reason

    @property
    def expansions(self) -> int:
        """Attempts from this node that are in flight."""
        return len(self.children) - self.evaluated_children


class Tree:
    """All nodes by id, and the correct ones by score."""

    FOLDS: ClassVar[tuple[type[Body], ...]] = (
        RunStarted, RunForked, BaselineMeasured, NodeSelected, ReplyParsed, ReplyRejected,
        EvaluationFinished, AttemptAbandoned,
    )  # fmt: skip
    """Events of other types leave it as it is."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self._ranking = Ranking()
        self._ancestry = Ancestry()
        self._improvers = ""
        self._given: GivenKernel | None = None
        self.score: ScoredBy = "device"

    def __getitem__(self, node: int) -> Node:
        return self.nodes[node]

    @property
    def root(self) -> Node:
        return self.nodes[ROOT]

    @property
    def best(self) -> Node | None:
        """The fastest correct node other than the root; of equals, the oldest."""
        best = self._ranking.first
        return None if best is None else self.nodes[best]

    def best_by(self, score: ScoredBy) -> Node | None:
        """The same by another score than the run's; looks at all nodes."""
        scored = [
            (node.outcome.runtime_by(score), node.id)
            for node in self.nodes.values()
            if isinstance(node.outcome, Correct)
        ]
        return self.nodes[min(scored)[1]] if scored else None

    def leaderboard(self) -> Iterator[Node]:
        """Correct nodes without the root, fastest first; of equals, the oldest first."""
        return (self.nodes[node] for node in self._ranking)

    def evaluated_children(self, node: int) -> list[int]:
        return [child for child in self.nodes[node].children if self.nodes[child].evaluated]

    def siblings(self, node: int) -> list[int]:
        """Evaluated nodes with the same parent, without ``node``; the root has none."""
        parent = self.nodes[node].parent
        if parent is None:
            return []
        return [other for other in self.evaluated_children(parent) if other != node]

    def is_within(self, node: int, ancestor: int) -> bool:
        """Whether ``node`` is ``ancestor`` or below it."""
        return self._ancestry.is_within(node, ancestor)

    # -- folding ------------------------------------------------------------------------

    def apply(self, body: Body) -> Node | None:
        """Fold one event; returns the node that it changed, None if it is not about one."""
        match body:
            case RunStarted():
                self._improvers = improvers(body.config)
                self.score = _score_of(body.config)
                self._given = body.given
                self.nodes[ROOT] = Node(id=ROOT, parent=None, source_sha256=body.task_sha256)
                self._ancestry.add(ROOT, None)
                return self.root
            case RunForked():
                self._improvers = improvers(body.config)
                self._rank_by(_score_of(body.config))
                return None
            case BaselineMeasured(baseline="eager"):
                self.root.status, self.root.runtime_ms = "evaluated", body.runtime_ms
                self.root.score_ms = body.runtime_ms
                self.root.labels = [*body.labels]
                return self.root
            case NodeSelected():
                return self._select(body)
            case ReplyParsed():
                return self._parse(body)
            case ReplyRejected():
                # No change of the node that the search could see.
                self.nodes[body.attempt].rejection = " ".join(body.reason.split())
                return None
            case EvaluationRequested():
                return self.nodes[body.attempt]
            case EvaluationFinished():
                return self._evaluate(body)
            case AttemptAbandoned():
                return self._abandon(body)
            case _:
                return None

    def _select(self, body: NodeSelected) -> Node:
        parent = self.nodes[body.node]
        made = "debug" if body.repair else self._improvers
        node = Node(id=body.attempt, parent=body.node, repair=body.repair, made=made)
        if body.repair:
            # The debug agent works on: the plan and its anchors are the failing node's.
            node.advice_sha256 = parent.advice_sha256
            node.annotated_sha256 = parent.annotated_sha256
        if body.rule == "given" and self._given is not None:
            node.made = "user"
            node.source_sha256, node.source_key = self._given.sha256, self._given.key
        parent.children.append(body.attempt)
        self.nodes[body.attempt] = node
        self._ancestry.add(body.attempt, body.node)
        return node

    def _parse(self, body: ReplyParsed) -> Node:
        node = self.nodes[body.attempt]
        node.rejection = ""
        if body.advice_sha256 is not None:
            node.advice_sha256, node.annotated_sha256 = body.advice_sha256, body.annotated_sha256
        if body.source_sha256 is not None:
            node.source_sha256, node.source_key = body.source_sha256, body.source_key
            node.explanation_sha256, node.spliced = body.explanation_sha256, body.spliced
        return node

    def _evaluate(self, body: EvaluationFinished) -> Node:
        node = self.nodes[body.attempt]
        node.status, node.outcome = "evaluated", body.outcome
        node.compile_log_sha256 = body.compile_log_sha256
        node.run_log_sha256 = body.run_log_sha256
        node.resources, node.observations = body.resources, body.observations
        node.same_as = body.same_as
        node.labels = labels_of(body.outcome, body.notes)
        if isinstance(body.outcome, Correct):
            node.runtime_ms = body.outcome.runtime_ms
            node.score_ms = body.outcome.runtime_by(self.score)
            self._ranking.add(node.score_ms, node.id)
        parent = self.nodes[node.parent or ROOT]
        parent.evaluated_children += 1
        parent.failed_children += node.failed
        return node

    def _rank_by(self, score: ScoredBy) -> None:
        if score == self.score:
            return
        self.score, self._ranking = score, Ranking()
        for node in self.nodes.values():
            if isinstance(node.outcome, Correct):
                node.score_ms = node.outcome.runtime_by(score)
                self._ranking.add(node.score_ms, node.id)

    def _abandon(self, body: AttemptAbandoned) -> Node:
        node = self.nodes[body.attempt]
        node.status, node.reason = "abandoned", body.reason
        siblings = self.nodes[node.parent or ROOT].children
        del siblings[bisect_left(siblings, body.attempt)]
        return node


def _score_of(config: dict[str, Any]) -> ScoredBy:
    """Logs from before there was a choice are by device time."""
    return "eager" if config.get("search", {}).get("score") == "eager" else "device"


def fold_tree(bodies: Iterable[Body]) -> Tree:
    """The tree after these events."""
    tree = Tree()
    for body in bodies:
        tree.apply(body)
    return tree
