"""Reject tasks whose reference leaves nothing to compare a candidate with."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.pytree import same_shape
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.determinism import compare_new_model
from gpu_sandbox.verifier.reference.task import Task

_OTHERS, _DRAWS = 4, 8
"""Inputs to compare with the first ones, of so many drawn: what differs for half of all inputs
differs from one to the next in half of all cases only."""
_MORE, _MORE_S = 32, 0.1  # if that takes no longer: shows what differs for one in ten
_MAX_BYTES = 1 << 30  # of a model that is constructed once more
_EARLIER = "earlier calls (what it keeps should be an input)"
_SLOW_S = 0.02  # A slower reference is run once more only


def check_values(case: Case) -> None:
    """Require outputs, without NaN, and none in inputs that the reference changes; raise
    ``Broken``."""
    if not case.expected:
        raise Broken("the reference returns no tensor")
    for number, expected in enumerate(case.expected):
        if _has_nan(expected.native):
            raise Broken(f"the reference's output {number} holds NaN")
    for number, mutated in enumerate(case.mutated):
        if _has_nan(mutated.native):
            raise Broken(f"the reference leaves NaN in input {number}")


def _has_nan(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and bool(torch.isnan(tensor).any())


def check_shapes(task: Task, first: Case) -> None:
    """Require outputs of the same shapes for other inputs of the same shapes: those of timed calls
    all have one place. Raise ``Broken``."""
    began, most = time.perf_counter(), 1 if task.forward_s > _SLOW_S else _OTHERS
    for number, case in enumerate(_alike(task, first)):
        if number >= most and (most == 1 or time.perf_counter() - began > _MORE_S):
            return
        if first.output_tree is not None:
            found: list[torch.Tensor] = []
            _compare(first, first.output_tree, task.tree(task.forward(case), found), found)


def check_reference(task: Task, first: Case, case: Case) -> None:
    """Before a candidate is blamed on inputs as drawn: require that the reference returns the same
    structure as for the ``first`` ones, and the same values from a new model. Raise ``Broken``."""
    if case.transform is not None or first.output_tree is None or case.output_tree is None:
        return
    _compare(first, first.output_tree, case.output_tree, [one.native for one in case.expected])
    if sum(t.nbytes for t in (*task.model.parameters(), *task.model.buffers())) > _MAX_BYTES:
        return
    try:
        found = compare_new_model(task, case)
    except Broken as broken:
        if broken.memory:  # which the candidate may have taken
            return
        raise
    for number, one in enumerate(found):
        if why := one.unlike or one.far:
            where = f"output {number}, of a model that has seen nothing before: {why}"
            raise Broken(f"what the reference returns depends on its {_EARLIER}: {where}")


def _compare(first: Case, kept: Tree, tree: Tree, found: Sequence[torch.Tensor]) -> None:
    unlike = same_shape(kept, tree)
    if unlike:
        raise Broken(f"what the reference returns depends on its inputs' values: {unlike}")
    for number, (one, other) in enumerate(zip(first.expected, found, strict=True)):
        if one.native.shape != other.shape:
            raise Broken(
                f"the shape of the reference's output {number} depends on its inputs' values:"
                f" {list(one.native.shape)}, then {list(other.shape)}"
            )


def check_repeatability(task: Task, first: Case) -> None:
    """Require runs on the same inputs that differ by no more than is allowed; raise ``Broken``."""
    for number, one in enumerate(task.repeatability):
        if why := one.unlike or one.far:
            where = f"output {number} of two runs: {why}"
            if any(new.unlike or new.far for new in compare_new_model(task, first)):
                raise Broken(f"the reference is not deterministic: {where}")
            raise Broken(f"what the reference returns depends on its {_EARLIER}: {where}")


def _alike(task: Task, first: Case) -> Iterator[Case]:
    for number in range(_DRAWS if task.forward_s > _SLOW_S else _MORE):
        case = task.draw("shapes", number)
        if [t.shape for t in case.tensors] == [t.shape for t in first.tensors]:
            yield case
