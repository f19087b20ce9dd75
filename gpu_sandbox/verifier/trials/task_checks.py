"""Why a task is none: what no candidate's outputs could be held against."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.pytree import same_shape
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.determinism_runs import made_anew
from gpu_sandbox.verifier.reference.task import Task

__all__ = ["check_reference", "check_repeats", "check_shapes", "check_values"]

_OTHERS, _DRAWS = 4, 8
"""Inputs to compare with the first ones, of so many drawn: what differs for half of all inputs
differs from one to the next in half of all cases only."""
_MORE, _MORE_S = 32, 0.1
"""If that takes no longer: what differs for one in ten is seen in most cases then."""
_LARGEST_BYTES = 1 << 30
"""Of a model that is made once more."""
_EARLIER = "earlier calls (what it keeps should be an input)"
_SLOW_S = 0.02
"""A reference that takes longer is run once more only."""


def check_values(case: Case) -> None:
    """There are outputs, and numbers in them and in inputs that it changes. Raises ``Broken``."""
    if not case.expected:
        raise Broken("the reference returns no tensor")
    for number, expected in enumerate(case.expected):
        native = expected.native
        if native.is_floating_point() and bool(torch.isnan(native).any()):
            raise Broken(f"the reference's output {number} holds NaN")
    for number, left in enumerate(case.left):
        if left.native.is_floating_point() and bool(torch.isnan(left.native).any()):
            raise Broken(f"the reference leaves NaN in input {number}")


def check_shapes(task: Task, first: Case) -> None:
    """Other inputs of the same shapes make outputs of the same. If not, those of timed calls,
    which all have one place, could not be compared. Raises ``Broken``."""
    began, most = time.perf_counter(), 1 if task.forward_s > _SLOW_S else _OTHERS
    for number, case in enumerate(_alike(task, first)):
        if number >= most and (most == 1 or time.perf_counter() - began > _MORE_S):
            return
        if first.output_tree is not None:
            found: list[torch.Tensor] = []
            _compare(first, first.output_tree, task.tree(task.forward(case), found), found)


def check_reference(task: Task, first: Case, case: Case) -> None:
    """Before a candidate is blamed for being wrong on inputs as they are drawn: the reference
    returns what it does for the ``first`` ones, and the same if it has seen nothing before, where
    that is soon seen. Raises ``Broken``."""
    if case.altered is not None or first.output_tree is None or case.output_tree is None:
        return
    _compare(first, first.output_tree, case.output_tree, [one.native for one in case.expected])
    if sum(t.nbytes for t in (*task.model.parameters(), *task.model.buffers())) > _LARGEST_BYTES:
        return
    try:
        found = made_anew(task, case)
    except Broken as broken:
        if broken.memory:  # which the candidate may have taken
            return
        raise
    for number, one in enumerate(found):
        if why := one.unlike or one.far:
            told = f"output {number}, of a model that has seen nothing before: {why}"
            raise Broken(f"what the reference returns depends on its {_EARLIER}: {told}")


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


def check_repeats(task: Task, first: Case) -> None:
    """Runs on the same inputs are not further apart than can be allowed for. Raises ``Broken``."""
    for number, repeats in enumerate(task.repeats):
        if why := repeats.unlike or repeats.far:
            told = f"output {number} of two runs: {why}"
            if any(one.unlike or one.far for one in made_anew(task, first)):
                raise Broken(f"the reference is not deterministic: {told}")
            raise Broken(f"what the reference returns depends on its {_EARLIER}: {told}")


def _alike(task: Task, first: Case) -> Iterator[Case]:
    for number in range(_DRAWS if task.forward_s > _SLOW_S else _MORE):
        case = task.draw("shapes", number)
        if [t.shape for t in case.tensors] == [t.shape for t in first.tensors]:
            yield case
