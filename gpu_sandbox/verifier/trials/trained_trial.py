"""A last trial, with constant parameters drawn at random in reference and candidate alike.

Norm weights, biases and running statistics are ones and zeros in a new module, so other trials do
not show whether they are used (``tensors/trained_state.py``). Both sides are constructed once more.
A wrong candidate gets a second try, where tensors that are no parameters count as constants, too.
If it is still wrong, the reference runs with one constant after the other as a new module holds it:
what makes the candidate right is what it does not use.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec
import torch

from gpu_sandbox.ipc.model_messages import Constant, ConstructTrained, Restore
from gpu_sandbox.ipc.verifier_messages import Differs, Job, WorkerFailed
from gpu_sandbox.ipc.worker_messages import Done
from gpu_sandbox.runtime.module_loader import construct
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.chunked import distance
from gpu_sandbox.tensors.trained_state import (
    any_frozen,
    constant_of,
    constant_state,
    construct_trained,
)
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.reference.cases import TRAINED, Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.checks import Agreement, check_call, with_inputs_named
from gpu_sandbox.verifier.trials.rounding_recheck import RoundingRecheck
from gpu_sandbox.verifier.trials.trial_calls import Candidate
from gpu_sandbox.verifier.trials.trial_cases import is_degenerate
from gpu_sandbox.verifier.trials.trials import Trials
from gpu_sandbox.verifier.trials.weights import differing
from gpu_sandbox.verifier.worker_link.requests import Ended

_DRAWS = 3
_MAX_BYTES_ON_CPU = 1 << 30  # of a model that is constructed once more on both sides
_COPIES = 3
_SLOW_LOAD_S = 30.0
_MAX_RUNS, _MAX_S = 64, 10.0
_NAMED = 3


class TrainedTrial:
    """The trial of one candidate. ``missing``: why there was none."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._task, self._peer, self._job, self._first, _ = candidate
        self._constant = constant_state(self._task.model)
        self.missing = ""

    def run(self, number: int, loaded_s: float, loaded: Collection[str]) -> Agreement:
        """Raise ``Ended`` on a difference. ``loaded``: parameters with the reference's values;
        ``loaded_s``: how long the candidate took to load."""
        if not self._constant:
            return Agreement()
        why = self._obstacle(loaded_s)
        prepared = None if why else self._prepared()
        if prepared is None:
            return self._skipped(why or "the reference fails, or is not finite, with others")
        task, case, asked = prepared
        trials = Trials(self._candidate._replace(task=task))
        try:
            self._construct(asked, task, loaded)
        except Ended as ended:
            if isinstance(ended.finding, WorkerFailed):
                self._peer.ask(Restore(), Done, "construct")
                return self._skipped(f"a second ModelNew(...) fails: {ended.finding.message}")
            raise Ended(with_inputs_named(ended.finding, "constructed once more")) from None
        agreement = self._tried(trials, case, number, asked, loaded)
        self._peer.ask(Restore(), Done, "construct")
        return agreement

    def _skipped(self, why: str) -> Agreement:
        names = _listed(list(self._constant))
        self.missing = f"{names}: ones, zeros or another constant in every trial, as {why}"
        return Agreement()

    def _obstacle(self, loaded_s: float) -> str:
        """Say why not to construct both once more."""
        model, device = self._task.model, torch.device(self._job.device)
        needed = sum(t.nbytes for t in (*model.parameters(), *model.buffers()))
        free = backend_of(device).free_bytes()
        room = _MAX_BYTES_ON_CPU if free is None else free // _COPIES
        if needed > room:
            return f"there is no memory for another {needed / (1 << 30):.1f} GiB of weights"
        return f"it takes {loaded_s:.0f} s to load" if loaded_s > _SLOW_LOAD_S else ""

    def _prepared(self) -> tuple[Task, Case, ConstructTrained] | None:
        """Make a task with such a reference, inputs, and what the candidate is to hold."""
        for attempt in range(_DRAWS):
            asked = self._drawn(attempt)
            try:
                task = self._task.with_constructor(partial(_construct, asked))
                case = task.draw("trained", attempt)
                case.trained = True
                sound = task.accepts(case, exact=True) and not is_degenerate(case, self._first)
                if sound and not any(RoundingRecheck(task).ill_conditioned(case, case.expected)):
                    return task, case, asked
            except (Broken, torch.OutOfMemoryError):
                return None
        return None

    def _drawn(self, attempt: int) -> ConstructTrained:
        """Draw one of each number of elements and value: renamed or reordered ones get the same."""
        kinds: dict[tuple[int, float], Constant] = {}
        for tensor in self._constant.values():
            elements, value = tensor.numel(), constant_of(tensor)
            assert value is not None
            seed = self._task.derived(f"trained/{elements}/{value}", attempt)
            kinds[elements, value] = Constant(elements=elements, value=value, seed=seed)
        return ConstructTrained(constants=list(kinds.values()), frozen=any_frozen(self._task.model))

    def _construct(self, asked: ConstructTrained, task: Task, loaded: Collection[str]) -> None:
        self._peer.send(asked, "construct")
        self._peer.take(Done, "construct", self._job.load_s)
        if loaded:
            differing(task.model, self._peer, load=True, only=loaded)

    def _tried(
        self,
        trials: Trials,
        case: Case,
        number: int,
        asked: ConstructTrained,
        loaded: Collection[str],
    ) -> Agreement:
        task = trials.task
        try:
            return trials.trial(case, number)
        except Ended as ended:
            if not isinstance(ended.finding, Differs):
                raise
            finding, got = ended.finding, trials.got
        try:
            self._construct(msgspec.structs.replace(asked, broad=True), task, loaded)
            return trials.trial(case, number)
        except Ended:
            pass
        unused = _Unused(task, case, self._constant, self._job, got).found()
        raise Ended(_naming(finding, unused, number))


class _Unused(NamedTuple):
    """Constants of ``task``'s trained model that ``got``, on ``case``, does not depend on."""

    task: Task
    case: Case
    constant: Mapping[str, torch.Tensor]
    job: Job
    got: list[torch.Tensor]

    def found(self) -> list[str]:
        """Name them; none where that can't be known."""
        try:
            return self._found()
        except (Broken, torch.OutOfMemoryError):  # the reference does not take that
            return []

    def _found(self) -> list[str]:
        """One alone if that explains it; else those together that bring the reference nearer."""
        if len(self.got) != len(self.case.expected):
            return []
        began, off = time.monotonic(), self._off()
        nearer: dict[str, float] = {}
        for name in list(self.constant)[:_MAX_RUNS]:
            with self._reset([name]):
                if (without := self._off()) < off:
                    nearer[name] = without
            if time.monotonic() - began > _MAX_S:
                break
        names = sorted(nearer, key=nearer.__getitem__)
        for count in range(1, len(names) + 1):
            if self._right_without(names[:count]):
                return [name for name in self.constant if name in names[:count]]
            if time.monotonic() - began > 2 * _MAX_S:
                break
        return list(self.constant) if self._right_without(list(self.constant)) else []

    @contextmanager
    def _reset(self, names: Sequence[str]) -> Iterator[None]:
        """Set these in the reference as a new module holds them."""
        model = self.task.model
        now = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        kept = {name: now[name].detach().clone() for name in names if name in now}
        for name in kept:
            now[name].detach().copy_(self.constant[name].detach())
        yield
        for name, before in kept.items():
            now[name].detach().copy_(before)

    def _off(self) -> float:
        """Distance of the candidate's outputs from the reference's now."""
        outputs = self.task.rerun(self.case)
        if [t.shape for t in outputs] != [t.shape for t in self.got]:
            return math.inf
        return sum(map(_between, self.got, outputs))

    def _right_without(self, names: Sequence[str]) -> bool:
        with self._reset(names):
            task, case = self.task.with_model(self.task.model), _copy_of(self.case)
            task.solve(case, exact=True)
            try:
                rechecks = RoundingRecheck(task).rechecks
                protocol, got = self.job.protocol, self.got
                check_call(case, case.expected, got, protocol, None, rechecks)
            except Ended:
                return False
        return True


def _construct(asked: ConstructTrained, *arguments: Any) -> Any:
    make = partial(construct, *arguments)
    return construct_trained(make, asked.constants, frozen=asked.frozen)


def _between(got: torch.Tensor, output: torch.Tensor) -> float:
    if got.dtype != output.dtype or not got.numel():
        return 0.0
    if got.is_floating_point() or got.is_complex():
        return distance(got, output)[0]
    return float((got != output).double().mean())


def _copy_of(case: Case) -> Case:
    found = Case(case.arguments, case.tree, case.tensors, case.forward_seed)
    found.trained = True
    return found


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(f"`{n}`" for n in names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _naming(finding: Differs, unused: Sequence[str], number: int) -> Differs:
    reason = f"{finding.reason}; it was right with parameters as a new module holds them"
    if unused:
        plural = "s" if len(unused) > 1 else ""
        reason = (
            f"does not use parameter{plural} {_listed(unused)}: one number in a new module, and"
            f" not in a trained one; with other values in both: {finding.reason}"
        )
    return msgspec.structs.replace(finding, reason=reason, told=TRAINED, trial=number)
