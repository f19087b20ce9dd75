"""The failure signatures that the paper names, recognised in a run. Pure.

- Planning-implementation gap (arXiv 2510.16996, section 1, limitation 3): "LLMs frequently
  devise a correct high-level optimization plan but fail to translate it into valid low-level
  CUDA code". Here: an instruction whose first attempt ended without a correct kernel. It is
  *closed* once a repair of the same instruction is correct, which proves the plan; while it is
  *open*, a bad translation and a bad plan look alike in the log.
- Dead branch (section 4.2): "a node has more than n_child children and all current children
  fail". Here: evaluated direct children; n_child is the run's ``search.dead_branch``.
- Root dominance (section 4.2): "it is very challenging to even outperform the source
  architecture in the root node". Here: ``search.root_throttle`` candidates of agents, as many as
  the paper lets start at the root, were judged, and none was ever faster than it. It is about what
  the agents find: a kernel that the user gave is no candidate of theirs, fast or slow; what they
  make of it is.

Where a run has such a rule switched off, the paper's threshold is taken (appendix B).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from projections.run.overview import Overview
from projections.search.instructions import Instruction, instructions_of

__all__ = ["DeadBranch", "Gap", "RootDominance", "Signatures", "dead_branches", "signatures_of"]

N_CHILD = 3
N_ROOT = 5


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """``attempts`` are all ended ones at the instruction, ``closed_by`` the first correct."""

    instruction: int
    attempts: list[int]
    closed_by: int | None


class DeadBranch(msgspec.Struct, frozen=True, kw_only=True):
    """``children`` failed, all there are; ``pruned``: the run's policy leaves the node alone."""

    node: int
    children: int
    pruned: bool


class RootDominance(msgspec.Struct, frozen=True, kw_only=True):
    """``held_for`` candidates of agents were judged before the first that was faster than the
    root, or all of them; the root dominates while there is none after ``threshold``."""

    dominates: bool
    held_for: int
    first_faster: int | None
    threshold: int


class Signatures(msgspec.Struct, frozen=True, kw_only=True):
    """What was recognised in a run so far."""

    gaps: list[Gap]
    dead_branches: list[DeadBranch]
    root: RootDominance

    @property
    def open_gaps(self) -> list[Gap]:
        return [gap for gap in self.gaps if gap.closed_by is None]


def signatures_of(
    overview: Overview, instructions: Collection[Instruction] | None = None
) -> Signatures:
    """``instructions`` are the tree's, where they are known already."""
    if instructions is None:
        instructions = instructions_of(overview.tree)
    return Signatures(
        gaps=[gap for each in instructions if (gap := _gap(each)) is not None],
        dead_branches=dead_branches(overview),
        root=_root(overview),
    )


def dead_branches(overview: Overview) -> list[DeadBranch]:
    """In the order of the nodes."""
    search = _search(overview)
    most = search.get("dead_branch")
    pruned = search.get("policy") == "stark" and most is not None
    most = N_CHILD if most is None else most
    return [
        DeadBranch(node=node.id, children=node.evaluated_children, pruned=pruned)
        for node in overview.tree.nodes.values()
        if node.is_dead(most)
    ]


def _gap(instruction: Instruction) -> Gap | None:
    ended, realised = instruction.ended, instruction.realised
    if not ended or instruction.first_pass:
        return None
    return Gap(
        instruction=instruction.id,
        attempts=[node.id for node in ended],
        closed_by=None if realised is None else realised.id,
    )


def _root(overview: Overview) -> RootDominance:
    threshold = _search(overview).get("root_throttle") or N_ROOT
    first, held_for = overview.first_faster, overview.root_held_for
    return RootDominance(
        dominates=first is None and held_for >= threshold,
        held_for=held_for, first_faster=first, threshold=threshold,
    )  # fmt: skip


def _search(overview: Overview) -> dict[str, Any]:
    search: dict[str, Any] = overview.started.config.get("search", {}) if overview.started else {}
    return search
