"""Transformed inputs among those of timed calls: a candidate can't be careful in trials alone.

Transforms that it passed in trials come again while it is timed, mostly of a part of each input:
half, so that some elements in place of all do not do; a few, which a look at some does not meet; or
one in 64 by so much that what overflows does. Inputs that the reference does not accept are
skipped.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.verifier.inputs.apply_in_place import change_in_place
from gpu_sandbox.verifier.inputs.invariants import Invariants, distinct
from gpu_sandbox.verifier.inputs.transforms import Part, Transform
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task

_MANY = 8
_ONE_IN = 4  # batches, by chance: counting them tells nothing
_AHEAD, _STOCK = 4, 2  # for so many batches so many sets of cases are drawn ahead
_TRIES = 6  # the first changes all inputs, the others some: one may depend on another
_MAX_STOCK_BYTES = 1 << 30
_PARTS: tuple[Part, ...] = ("half", "sparse", "few")
_MORE: tuple[Part, ...] = ("half", "sparse", "few", "few")
"""Two of these are among each five. A few elements are what a look at some does not meet."""

_T = TypeVar("_T")


class HiddenCases:
    """Cases for batches of one kind. Of many calls one is on transformed inputs; of a few all are,
    in one batch out of four, which then says nothing of the time on the task's own inputs.
    ``in_place``: inputs are too large to be drawn apart, so some are changed in place."""

    def __init__(self, task: Task, first: Case) -> None:
        self._task = task
        self._first = first
        self._bytes = sum(t.nbytes for t in first.tensors)
        self.in_place = self._bytes > _MAX_STOCK_BYTES
        self._turn = 0
        self._parts: list[Part] = []
        self._decks: dict[Part, list[Transform]] = {part: [] for part in _PARTS}
        self._stock: list[list[Case]] = []

    def among(self, calls: int, purpose: str, index: int) -> dict[int, Case]:
        """Draw for the ``index``-th batch for ``purpose``, by number of the call. Empty before
        there were trials, and where the reference accepts none."""
        if not self._task.passed_transforms or self.in_place:
            return {}
        if calls >= _MANY:
            chosen = [secrets.randbelow(calls)]
            return self._used(chosen, self._drawn(1, purpose, index))
        found = self._next(calls, purpose, index)
        if found:  # draw as many as in other batches, which takes time
            for number in range(calls):
                self._task.draw(f"{purpose}/unused", index * calls + number)
        return self._used(range(calls), found)

    def _next(self, calls: int, purpose: str, index: int) -> list[Case]:
        """In one batch of four, by chance. Drawing is done before each fourth, or, if there is no
        memory for a stock, before each: how long it takes must not tell which it is."""
        mine = _one_in_four()
        if _STOCK * calls * self._bytes > _MAX_STOCK_BYTES:
            found = self._drawn(calls, purpose, index)
            return found if mine else []
        if self._turn % _AHEAD == 0:
            self._stock = [self._drawn(calls, f"{purpose}/{n}", index) for n in range(_STOCK)]
        self._turn += 1
        return self._stock.pop() if mine and self._stock else []

    def change(self, cases: Sequence[Case]) -> int:
        """Change some of the next batch's cases in place, without trying the reference on them;
        return how many."""
        if not self._task.passed_transforms or not self.in_place:
            return 0
        if len(cases) >= _MANY:
            chosen = [secrets.choice(cases)]
        else:
            chosen = list(cases) if _one_in_four() else []
        changed = 0
        for case in chosen:
            way = self._transform()
            known = itertools.chain(
                self._task.invariants_of(case.tensors), itertools.repeat(Invariants())
            )
            each = list(enumerate(zip(distinct(case.tensors), known, strict=False)))
            mine = [both for number, both in each if way.only is None or number in way.only]
            rest = [both[0] for number, both in each if way.only and number not in way.only]
            if change_in_place(mine, [*self._first.tensors, *rest], way.change, way.part):
                case.transform = way
                changed += 1
        self._task.hidden_cases += changed
        return changed

    def _drawn(self, calls: int, purpose: str, index: int) -> list[Case]:
        """Draw a case for each call, or none."""
        found: list[Case] = []
        for number in range(_TRIES * calls):
            if len(found) == calls:
                break
            way = self._transform()
            if number % _TRIES:
                way = way.on_some_inputs(self._first.tensors)
            with suppress(Broken):
                case = self._task.draw(f"{purpose}/changed/{number}", index, way)
                if case.is_like(self._first) and self._task.accepts(case):
                    case.drop_expected()
                    found.append(case)
        return found if len(found) == calls else []

    def _used(self, calls: Sequence[int], cases: Sequence[Case]) -> dict[int, Case]:
        self._task.hidden_cases += len(cases)
        return dict(zip(calls, cases, strict=False))

    def _transform(self) -> Transform:
        """Draw a part, and a transform that fits it, each as from a deck of cards: each part is
        among five. All but halves are judged as the task's own inputs are."""
        fit = [part for part in _PARTS if self._transforms(part)]
        more = [part for part in _MORE if part in fit]
        part = _next_of(self._parts, [*fit, *(secrets.choice(more) for _ in range(2))])
        way = _next_of(self._decks[part], self._transforms(part))
        if part == "half":
            return way._replace(part="run" if way.part == "run" else "half")
        pairs = zip(way.margins, self._first.margins, strict=True)
        margins = [msgspec.structs.replace(m, usual_rms=own.usual_rms) for m, own in pairs]
        return way._replace(part=part, margins=margins, usual_sizes=self._first.usual_sizes)

    def _transforms(self, part: Part) -> Sequence[Transform]:
        passed: Sequence[Transform] = self._task.passed_transforms
        if part == "half":
            return [way for way in passed if way.allows_half]
        if part == "sparse":
            return [way for way in passed if not way.allows_half]
        dense = [way for way in passed if way.dense]
        return [way for way in dense if way.part == "all"] or dense or passed


def _one_in_four() -> bool:
    return secrets.randbelow(_ONE_IN) == 0


def _next_of(deck: list[_T], all_of_them: Sequence[_T]) -> _T:
    """Draw from a deck, which is shuffled anew when it is empty."""
    if not deck:
        deck += all_of_them
        secrets.SystemRandom().shuffle(deck)
    return deck.pop()
