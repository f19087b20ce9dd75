"""An output's structure, shapes, aliasing and values against a case's truth."""

from __future__ import annotations

from gpu_sandbox.child.compare import compare
from gpu_sandbox.child.peer import Ended, Peer
from gpu_sandbox.child.reference import Case
from gpu_sandbox.child.values import same_shape
from gpu_sandbox.messages import Differs, Leaf, Ran, Spot
from gpu_sandbox.protocols import Protocol

__all__ = ["check_output"]


def check_output(
    peer: Peer, case: Case, ran: Ran, spots: list[Spot], protocol: Protocol, trial: int | None
) -> float:
    """The largest absolute error of an acceptable output; raises ``Ended`` otherwise."""
    assert case.output_tree is not None
    unlike = same_shape(case.output_tree, ran.tree)
    if unlike or len(ran.leaves) != len(case.expected):
        raise Ended(Differs(reason=f"the output's structure differs: {unlike}", trial=trial))
    for number, (leaf, spot) in enumerate(zip(ran.leaves, spots, strict=True)):
        problem = _leaf_problem(leaf, spot, case.aliasing[number])
        if problem:
            raise Ended(Differs(reason=_named(problem, number, spots), trial=trial))
    worst = 0.0
    for number, got in enumerate(peer.outputs(spots)):
        difference = compare(case.expected[number], got, protocol)
        if not difference.ok:
            finding = Differs(
                reason=_named(difference.reason, number, spots),
                trial=trial,
                max_abs_error=difference.max_abs_error,
                max_rel_error=difference.max_rel_error,
                detail=difference.detail,
            )
            raise Ended(finding)
        worst = max(worst, difference.max_abs_error or 0.0)
    return worst


def _leaf_problem(leaf: Leaf, spot: Spot, may_alias: bool) -> str | None:
    if leaf.shape != spot.shape:
        return f"expected shape {list(spot.shape)}, got {list(leaf.shape)}"
    if leaf.dtype != spot.dtype:
        return f"expected dtype {spot.dtype}, got {leaf.dtype[:40]}"
    if not leaf.written:
        return f"it lies on {leaf.device[:40]}"
    if leaf.aliases_input and not may_alias:
        return "it shares memory with an input"
    return None


def _named(problem: str, number: int, spots: list[Spot]) -> str:
    return problem if len(spots) == 1 else f"output {number}: {problem}"
