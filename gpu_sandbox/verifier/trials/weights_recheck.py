"""Recheck a candidate that was wrong for parameters that are not the reference's.

Under ``strict`` and its variants all trials are repeated with the reference's values, the failed
case first. Not before it has failed: a candidate may have folded one parameter into another of the
same name and shape.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from gpu_sandbox.ipc.model_messages import ConstructAnew
from gpu_sandbox.ipc.verifier_messages import Differs
from gpu_sandbox.ipc.worker_messages import Done
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.verifier.trials.checks import Agreement
from gpu_sandbox.verifier.trials.trial_calls import Candidate
from gpu_sandbox.verifier.trials.trials import Trials
from gpu_sandbox.verifier.trials.weights import Unequal, described, differing
from gpu_sandbox.verifier.worker_link.requests import Ended

_LOADED = "the reference's values were loaded into the candidate"
_STILL = (
    "; with the reference's values loaded it is wrong, too (__init__ may have folded or packed"
    " what it drew itself)"
)


class WeightsRecheck:
    """Recheck of one candidate. ``loaded``: parameters and buffers that got the reference's values;
    ``done``: the number of trials that are right."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._task, self._peer, self._job, self._first, self._notes = candidate
        self.loaded: frozenset[str] = frozenset()
        self.done = 0
        self._unlike: Unequal = {}

    def run(self, trials: Trials) -> Agreement:
        """Run ``trials``, and again with the reference's values if they fail. Raises ``Ended`` with
        a reason that names what differs."""
        try:
            agreement, self.done = trials.run(), trials.done
            return agreement
        except Ended as ended:
            if not isinstance(ended.finding, Differs):
                raise
            finding = ended.finding
        drawn = self._another_draw()
        if not drawn or self._job.protocol.allclose is not None:
            raise Ended(self._named(finding))
        return self._with_loaded(trials, finding, drawn)

    def _another_draw(self) -> Unequal:
        """Find parameters of another draw, and load the reference's under ``strict``. None where
        that can't be known: then the finding stands."""
        with suppress(Ended, Broken):
            model = self._task.new_model()
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
        task.passed_transforms.clear()
        task.solve(first, exact=True)
        before = [failed] if failed is not None and failed is not first else []
        notes: list[str] = []
        again = Trials(self._candidate._replace(notes=notes), before)
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
        """Put another draw first: it is the cause. What was changed on purpose may not be."""
        drawn = {name: one for name, one in self._unlike.items() if one.is_drawn}
        reason = finding.reason
        if drawn:
            reason = f"{described(drawn)}{more}: {reason}"
        elif self._unlike:
            reason = f"{reason}; {described(self._unlike)}"
        return msgspec.structs.replace(finding, reason=reason)
