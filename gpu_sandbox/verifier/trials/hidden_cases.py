"""Changed inputs among those of timed calls, so that care in the trials alone is not enough.

A candidate that tells trials from timed calls could be safe in the first and only fast in
the second: leave out a softmax's maximum, say, which the task's own inputs do not need. So
what it got right in the trials on changed inputs (``trials.py``) comes again while it is
timed, where it can't know. Then a part of each input only is changed
(``verifier/inputs/invariants.py``): half of it, so that a few elements in place of all do not
do, a few, so that a look at some does not tell, or one in 64 by so much that what overflows
does. Where the reference fails on what comes of it, or is not finite there, nobody is held to
it: a matrix whose half is changed may not be positive definite any more, an interval may end
before it begins."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.verifier.inputs.altered import Altered, Part
from gpu_sandbox.verifier.inputs.apply_in_place import change_in_place
from gpu_sandbox.verifier.inputs.invariants import Form, once
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task

__all__ = ["Surprises"]

_MANY = 8
_ONE_IN = 4
"""Batches, by chance: who counts them learns nothing."""
_AHEAD, _STOCK = 4, 2
"""For so many batches so many are drawn ahead."""
_TRIES = 6
"""The first is of all inputs, the others of some: one may have to do with another."""
_KEPT_BYTES = 1 << 30
_PARTS: tuple[Part, ...] = ("half", "sparse", "few")
_MORE: tuple[Part, ...] = ("half", "sparse", "few", "few")
"""Two of these are among each five. A few elements are what a look at some does not meet."""

_T = TypeVar("_T")


class Surprises:
    """Of the batches of one kind: which of their calls get changed inputs, and how.

    Of many calls one does. Of a few all do, in one release out of four: such a release
    says nothing of the time that the task's own inputs take. ``in_place``: they are so large that
    they are not drawn apart: what was drawn is changed (``verifier/inputs/apply_in_place.py``).
    """

    def __init__(self, task: Task, first: Case) -> None:
        self._task = task
        self._first = first
        self._bytes = sum(t.nbytes for t in first.tensors)
        self.in_place = self._bytes > _KEPT_BYTES
        self._turn = 0
        self._parts: list[Part] = []
        self._left: dict[Part, list[Altered]] = {part: [] for part in _PARTS}
        self._stock: list[list[Case]] = []

    def among(self, calls: int, purpose: str, index: int) -> dict[int, Case]:
        """Of the ``index``-th release for ``purpose``: by number of the call. Empty before there
        were trials, and where the reference can't take any."""
        if not self._task.altered or self.in_place:
            return {}
        if calls >= _MANY:
            chosen = [secrets.randbelow(calls)]
            return self._used(chosen, self._drawn(1, purpose, index))
        found = self._next(calls, purpose, index)
        if found:  # as many are drawn each time: of these none is needed
            for number in range(calls):
                self._task.draw(f"{purpose}/unused", index * calls + number)
        return self._used(range(calls), found)

    def _next(self, calls: int, purpose: str, index: int) -> list[Case]:
        """Of one in four, by chance. All that takes time is done before each fourth, or, of what is
        too large to be kept, before each: how long it takes must not tell which it is."""
        mine = _one_in_four()
        if _STOCK * calls * self._bytes > _KEPT_BYTES:
            found = self._drawn(calls, purpose, index)
            return found if mine else []
        if self._turn % _AHEAD == 0:
            self._stock = [self._drawn(calls, f"{purpose}/{n}", index) for n in range(_STOCK)]
        self._turn += 1
        return self._stock.pop() if mine and self._stock else []

    def change(self, cases: Sequence[Case]) -> int:
        """Change some of these, which were drawn for the next release, in place: how many. The
        reference is not tried on them."""
        if not self._task.altered or not self.in_place:
            return 0
        if len(cases) >= _MANY:
            chosen = [secrets.choice(cases)]
        else:
            chosen = list(cases) if _one_in_four() else []
        changed = 0
        for case in chosen:
            way = self._way()
            forms = itertools.chain(self._task.forms_of(case.tensors), itertools.repeat(Form()))
            each = list(enumerate(zip(once(case.tensors), forms, strict=False)))
            mine = [both for number, both in each if way.only is None or number in way.only]
            rest = [both[0] for number, both in each if way.only and number not in way.only]
            if change_in_place(mine, [*self._first.tensors, *rest], way.change, way.part):
                case.altered = way
                changed += 1
        self._task.surprised += changed
        return changed

    def _drawn(self, calls: int, purpose: str, index: int) -> list[Case]:
        """All of them, or none."""
        found: list[Case] = []
        for number in range(_TRIES * calls):
            if len(found) == calls:
                break
            way = self._way() if number % _TRIES == 0 else self._way().of_some(self._first.tensors)
            with suppress(Broken):
                case = self._task.draw(f"{purpose}/changed/{number}", index, way)
                if case.is_like(self._first) and self._task.takes(case):
                    case.forget_expected()
                    found.append(case)
        return found if len(found) == calls else []

    def _used(self, calls: Sequence[int], cases: Sequence[Case]) -> dict[int, Case]:
        self._task.surprised += len(cases)
        return dict(zip(calls, cases, strict=False))

    def _way(self) -> Altered:
        """Each as often as others of its part. Each part is among five, in an order that nobody
        knows, and what came says little of what is left. What is too much for half of it, and what
        is changed in a few places, is judged as the task's own inputs are."""
        fit = [part for part in _PARTS if self._ways(part)]
        more = [part for part in _MORE if part in fit]
        part = _next_of(self._parts, [*fit, *(secrets.choice(more) for _ in range(2))])
        way = _next_of(self._left[part], self._ways(part))
        if part == "half":
            return way._replace(part="run" if way.part == "run" else "half")
        usual = zip(way.margins, self._first.margins, strict=True)
        margins = [msgspec.structs.replace(m, typical=u.typical) for m, u in usual]
        return way._replace(part=part, margins=margins, usual=self._first.usual)

    def _ways(self, part: Part) -> Sequence[Altered]:
        ways: Sequence[Altered] = self._task.altered
        if part == "half":
            return [way for way in ways if way.halved]
        if part == "sparse":
            return [way for way in ways if not way.halved]
        dense = [way for way in ways if way.dense]
        return [way for way in dense if way.part == "all"] or dense or ways


def _one_in_four() -> bool:
    return secrets.randbelow(_ONE_IN) == 0


def _next_of(left: list[_T], all_of_them: Sequence[_T]) -> _T:
    """As from a deck of cards."""
    if not left:
        left += all_of_them
        secrets.SystemRandom().shuffle(left)
    return left.pop()
