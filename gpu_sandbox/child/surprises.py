"""Changed inputs among those of timed calls, so that care in the trials alone is not enough.

A candidate that tells trials from timed calls could be safe in the first and only fast in
the second: leave out a softmax's maximum, say, which the task's own inputs do not need. So
what it got right in the trials on changed inputs (``trials.py``) comes again while it is
timed, where it can't know. Then a part of each input only is changed (``forms.py``): half of it, so
that a few elements in place of all do not do, or a few, so that a look at some does not tell.
"""

from __future__ import annotations

import secrets

import msgspec

from gpu_sandbox.child.cases import Altered, Case
from gpu_sandbox.child.reference import Task

__all__ = ["Surprises"]

_MANY = 8
_EVERY = 5


class Surprises:
    """Of the releases of one kind: which of their calls get changed inputs, and how.

    Of many calls one does. Of a few all do, in one release out of every five: such a release
    says nothing of the time that the task's own inputs take.
    """

    def __init__(self, task: Task, first: Case) -> None:
        self._task = task
        self._first = first
        self._turn = self._chosen_turn = 0
        self._few = secrets.choice((True, False))
        self._left: dict[bool, list[Altered]] = {True: [], False: []}

    def among(self, calls: int) -> dict[int, Altered]:
        """Of the next release: by number of the call. Empty before there were trials."""
        if not self._task.altered:
            return {}
        if calls >= _MANY:
            return {secrets.randbelow(calls): self._way()}
        if self._turn == 0:
            self._chosen_turn = secrets.randbelow(_EVERY)
        mine = self._turn == self._chosen_turn
        self._turn = (self._turn + 1) % _EVERY
        return dict.fromkeys(range(calls), self._way()) if mine else {}

    def _way(self) -> Altered:
        """Each as often as the others, in an order that nobody knows; of half of the inputs and of
        a few elements in turn."""
        self._few = not self._few
        left = self._left[self._few]
        if not left:
            ways = self._task.altered
            left += (self._few and [way for way in ways if way.dense]) or ways
            secrets.SystemRandom().shuffle(left)
        way = left.pop()
        if not self._few:
            return way._replace(part="half")
        usual = zip(way.margins, self._first.margins, strict=True)
        margins = [msgspec.structs.replace(m, typical=u.typical) for m, u in usual]
        return way._replace(part="few", margins=margins, usual=self._first.usual)
