"""Which node an attempt starts from."""

from __future__ import annotations

from typing import Literal

import msgspec

from events.bodies.body import Body, event

__all__ = [
    "AttemptAbandoned",
    "Draws",
    "NodeSelected",
    "Rule",
]

Rule = Literal[
    "exploit", "explore", "sample", "repair", "uct", "tournament", "latest", "pinned", "given"
]


class Draws(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The random integers that a selection used; null where it used none.

    ``coin`` is out of 2**32; ``leaf`` and ``tie`` are indices into the candidates in
    ascending node order, and so are those of ``tournament``, which may name one twice.
    """

    coin: int | None = None
    leaf: int | None = None
    tie: int | None = None
    tournament: list[int] = []


@event("NodeSelected", "decision")
class NodeSelected(Body, frozen=True, kw_only=True):
    """An attempt starts from ``node``.

    ``rule`` is what picked it: ``exploit`` and ``explore`` are the adapted epsilon-greedy
    rule's, ``sample`` and ``repair`` those of best-of-K; ``uct`` is the tree search's,
    ``tournament`` evolution's, ``latest`` iterative refinement's; ``pinned`` is the user's.
    ``given`` is no pick: the attempt is the kernel that the user gave, and no agent is asked.
    ``eligible`` counts the nodes that could have been taken. ``visit`` counts earlier
    attempts from a node with the same source on the same path (improve or repair), a given
    kernel not among them.
    """

    attempt: int
    node: int
    rule: Rule
    repair: bool
    visit: int
    draws: Draws
    eligible: int
    state_digest: str


@event("AttemptAbandoned", "decision")
class AttemptAbandoned(Body, frozen=True, kw_only=True):
    """The attempt ends without a candidate: it counts toward B and is never selectable."""

    attempt: int
    reason: str
