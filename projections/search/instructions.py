"""Instructions and what became of them: the paper's code-synthesis fidelity. Pure.

"The dominant bottleneck is code-synthesis fidelity: LLMs often need multiple attempts to
faithfully implement a given instruction" (arXiv 2510.16996, section 4.1). An instruction is an
accepted plan. It is implemented by the attempt that it was given for, and by every repair below
that: the debug role works on the same plan and anchors (algorithm 1, line 9).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from projections.search.tree import Node, Tree

__all__ = ["Edits", "Fidelity", "Instruction", "fidelity_of", "instructions_of"]


class Edits(msgspec.Struct, frozen=True, kw_only=True):
    """Changed lines of an implementation: inside its plan's anchors, allowed beside them, and
    elsewhere (``agents.replies.edits`` counts them)."""

    inside: int
    allowed: int
    outside: int

    @property
    def share(self) -> float | None:
        """inside / (inside + outside); None when there is neither."""
        return _rate(self.inside, self.inside + self.outside)

    @property
    def grounded(self) -> bool:
        """Something changed inside, and nothing outside but what is allowed there."""
        return self.inside > 0 and self.outside == 0


class Instruction(msgspec.Struct, frozen=True, kw_only=True):
    """``id`` is the attempt that it was given for, ``attempts`` all that carry it, ascending."""

    id: int
    attempts: tuple[Node, ...]

    @property
    def ended(self) -> list[Node]:
        """Judged or abandoned."""
        return [node for node in self.attempts if node.status != "expanding"]

    @property
    def realised(self) -> Node | None:
        """The first correct implementation."""
        return next((node for node in self.attempts if node.runtime_ms is not None), None)

    @property
    def first_pass(self) -> bool:
        return self.attempts[0].runtime_ms is not None


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """What came of instructions of which an attempt has ended; rates are null without any.

    ``first_pass``: their first attempt was correct; ``repaired``: a later one was, a repair;
    ``unrealised``: none so far. ``attempts`` are those that ended, abandoned ones too. Of
    ``repairs`` (every ended attempt of the debug role) ``mended`` are correct. Lines are summed
    over the ``compared`` attempts, those whose plan and source can be read, of which
    ``grounded`` kept to their anchors.
    """

    instructions: int
    first_pass: int
    repaired: int
    unrealised: int
    first_pass_rate: float | None
    attempts: int
    attempts_per_instruction: float | None
    repairs: int
    mended: int
    repair_rate: float | None
    compared: int
    grounded: int
    grounded_rate: float | None
    lines_inside: int
    lines_allowed: int
    lines_outside: int
    inside_share: float | None


def instructions_of(tree: Tree) -> list[Instruction]:
    """All instructions that were given, in the order of their attempts."""
    carried: dict[int, int] = {}
    attempts: dict[int, list[Node]] = {}
    for node in tree.nodes.values():
        if node.repair and node.parent is not None:
            instruction = carried.get(node.parent)
        else:
            instruction = node.id if node.advice_sha256 is not None else None
        if instruction is not None:
            carried[node.id] = instruction
            attempts.setdefault(instruction, []).append(node)
    return [Instruction(id=id_, attempts=tuple(nodes)) for id_, nodes in attempts.items()]


def fidelity_of(
    tree: Tree, instructions: Collection[Instruction], edits: Mapping[int, Edits]
) -> Fidelity:
    """``edits`` by node, where they could be counted."""
    begun = [each for each in instructions if each.ended]
    first = sum(each.first_pass for each in begun)
    realised = sum(each.realised is not None for each in begun)
    attempts = sum(len(each.ended) for each in begun)
    repairs = [n for n in tree.nodes.values() if n.repair and n.status != "expanding"]
    mended = sum(node.runtime_ms is not None for node in repairs)
    grounded = sum(counted.grounded for counted in edits.values())
    inside, allowed, outside = (
        sum(getattr(counted, name) for counted in edits.values())
        for name in ("inside", "allowed", "outside")
    )
    return Fidelity(
        instructions=len(begun), first_pass=first, repaired=realised - first,
        unrealised=len(begun) - realised, first_pass_rate=_rate(first, len(begun)),
        attempts=attempts, attempts_per_instruction=_rate(attempts, len(begun)),
        repairs=len(repairs), mended=mended, repair_rate=_rate(mended, len(repairs)),
        compared=len(edits), grounded=grounded, grounded_rate=_rate(grounded, len(edits)),
        lines_inside=inside, lines_allowed=allowed, lines_outside=outside,
        inside_share=_rate(inside, inside + outside),
    )  # fmt: skip


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
