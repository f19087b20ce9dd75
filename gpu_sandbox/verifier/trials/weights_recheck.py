"""A candidate that was wrong, looked at for parameters that are not the reference's.

Under ``strict`` and its variants it is tried once more with the reference's values, from the
first trial on; the case that it failed comes first. Nobody loads them before it has failed: a
candidate may have folded one parameter into another of the same name and shape.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from gpu_sandbox.ipc.model_messages import ConstructAnew
from gpu_sandbox.ipc.verifier_messages import Differs, Job
from gpu_sandbox.ipc.worker_messages import Done
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.checks import Agreement
from gpu_sandbox.verifier.trials.trials import Trials
from gpu_sandbox.verifier.trials.weights import Unequal, described, differing
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended

__all__ = ["Retrial"]

_LOADED = "the reference's values were loaded into the candidate"
_STILL = (
    "; with the reference's values loaded it is wrong, too (__init__ may have folded or packed"
    " what it drew itself)"
)


class Retrial:
    """``loaded``: names of parameters and buffers that the candidate took over; ``done``: how many
    trials it got right."""

    def __init__(self, task: Task, peer: Peer, job: Job, first: Case, notes: list[str]) -> None:
        self._task = task
        self._peer = peer
        self._job = job
        self._first = first
        self._notes = notes
        self.loaded: frozenset[str] = frozenset()
        self.done = 0
        self._unlike: Unequal = {}

    def run(self, trials: Trials) -> Agreement:
        """How far outputs are off in ``trials``, or in others with the reference's values. Raises
        ``Ended`` with a reason that names what differs."""
        try:
            agreement, self.done = trials.run(), trials.done
            return agreement
        except Ended as ended:
            if not isinstance(ended.finding, Differs):
                raise
            finding = ended.finding
        drawn = self._drawn_otherwise()
        if not drawn or self._job.protocol.allclose is not None:
            raise Ended(self._named(finding))
        return self._with_loaded(trials, finding, drawn)

    def _drawn_otherwise(self) -> Unequal:
        """What comes of another draw, and was taken over under ``strict``. Nothing where that can't
        be told: then the finding stands as it is."""
        with suppress(Ended, Broken):
            model = self._task.anew()
            self._peer.send(ConstructAnew(), "construct")
            self._peer.take(Done, "construct", self._job.load_s)
            self._unlike = differing(model, self._peer, load=False)
            drawn = {name: one for name, one in self._unlike.items() if one.is_drawn}
            if drawn and self._job.protocol.allclose is None:
                differing(model, self._peer, load=True, only=drawn)
            return drawn
        return {}

    def _with_loaded(self, trials: Trials, finding: Differs, drawn: Unequal) -> Agreement:
        task, first, failed = self._task, self._first, trials.failed
        task.altered.clear()
        task.solve(first, exact=True)
        before = [failed] if failed is not None and failed is not first else []
        notes: list[str] = []
        again = Trials(task, self._peer, self._job, first, notes, before)
        try:
            agreement = again.run()
        except Ended as ended:
            further = isinstance(ended.finding, Differs) and again.done >= trials.done
            last = ended.finding if further and isinstance(ended.finding, Differs) else finding
            raise Ended(self._named(last, _STILL)) from None
        self.loaded, self.done = frozenset(drawn), again.done
        self._notes += [note for note in notes if note not in self._notes]
        self._notes.append(f"{described(drawn)}: {_LOADED}")
        return agreement

    def _named(self, finding: Differs, more: str = "") -> Differs:
        """What comes of another draw is the cause, and comes first; what was changed may not be."""
        drawn = {name: one for name, one in self._unlike.items() if one.is_drawn}
        reason = finding.reason
        if drawn:
            reason = f"{described(drawn)}{more}: {reason}"
        elif self._unlike:
            reason = f"{reason}; {described(self._unlike)}"
        return msgspec.structs.replace(finding, reason=reason)
