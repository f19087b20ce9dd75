"""An output's structure, shapes, aliasing and values against a case's truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import msgspec
import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.ipc.verifier_messages import Differs, Finding, WorkerDied, WorkerFailed
from gpu_sandbox.ipc.worker_messages import Leaf, Ran
from gpu_sandbox.tensors.pytree import same_shape, same_values
from gpu_sandbox.verifier.numerics.compare import compare, error_and_bound
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.mutated_inputs import Left
from gpu_sandbox.verifier.numerics.rules.not_finite import of_infinities
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.worker_link.requests import Ended

__all__ = [
    "Agreement",
    "Look",
    "check_call",
    "check_left",
    "check_plain",
    "check_shape",
    "check_values",
    "is_turned",
    "told_of",
]

Look: TypeAlias = tuple[Sequence[Expected], list[torch.Tensor]]
"""What is expected, and what is held against it."""
Looks: TypeAlias = Callable[[Case, Sequence[Expected], list[torch.Tensor]], Iterator[Look]]
"""``Rounding.looks``, or ``timed_looks``."""
Counts: TypeAlias = Callable[[Tree, Tree], bool]
"""``Rounding.counts``, of one case."""

_WRITTEN_OVER = (
    "; only NaN is wrong: callers write that over outputs when they are done with them, so memory"
    " that is taken again has to be written whole"
)
_TIMED_NAN = (
    "; all of it is NaN, and was not before it was timed, as where the output of an earlier call is"
    " returned: callers write NaN over outputs that they are done with"
)


class Agreement(NamedTuple):
    """How far acceptable outputs are off: the largest absolute error, and the error that came
    nearest to its bound, with that bound and its trial; none where values had to be equal."""

    worst: float = 0.0
    error: float | None = None
    bound: float | None = None
    trial: int | None = None

    def and_also(self, other: Agreement) -> Agreement:
        """Of both."""
        nearer = other if other._nearness > self._nearness else self
        return nearer._replace(worst=max(self.worst, other.worst))

    @property
    def _nearness(self) -> float:
        if self.error is None or self.bound is None:
            return -1.0
        return self.error / self.bound if self.bound > 0 else 0.0


def _exactly(_: Tree, __: Tree) -> bool:
    """Whole numbers that differ are wrong."""
    return False


def check_shape(
    case: Case,
    ran: Ran,
    trial: int | None,
    tree: Tree | None = None,
    usual: Sequence[float] | None = None,
    *,
    any_order: bool = False,
    counts: Counts = _exactly,
) -> None:
    """Structure, shapes, dtypes, aliasing as claimed; raises ``Ended`` on a difference. ``tree``:
    what the reference made of the very inputs, if they were not the case's, and ``usual`` sizes of
    its plain values then. ``any_order``: whether elements may lie in another. ``counts``: whether
    whole numbers that differ are as right."""
    tree = tree or case.output_tree
    assert tree is not None
    unlike = same_shape(tree, ran.tree)
    if unlike or len(ran.leaves) != len(case.expected):
        raise Ended(Differs(reason=f"the output's structure differs: {unlike}", trial=trial))
    check_plain(tree, ran.tree, case.usual if usual is None else usual, trial, counts)
    for number, (leaf, expected) in enumerate(zip(ran.leaves, case.expected, strict=True)):
        problem = _leaf_problem(leaf, expected.native, case.aliasing[number])
        if not problem and leaf.overlapping and not case.overlapping[number]:
            problem = "its elements share memory, as an expanded tensor's do"
        if not problem and leaf.shared and not case.sharing[number]:
            problem = "it shares memory with another output"
        if not problem and not any_order and is_turned(case, number, leaf):
            problem = (
                "its elements lie in another order than the reference's, which is contiguous: "
                ".contiguous() puts them in order"
            )
        if problem:
            raise Ended(Differs(reason=_named(problem, number, case.expected), trial=trial))


def check_plain(
    tree: Tree,
    got: Tree,
    usual: Sequence[float],
    trial: int | None,
    counts: Counts = _exactly,
) -> None:
    """Of outputs of the same structure; raises ``Ended`` on a difference."""
    unlike = same_values(tree, got, usual)
    if unlike and (same_values(tree, got, usual, but_whole=True) or not counts(tree, got)):
        raise Ended(Differs(reason=f"a plain value of the output differs: {unlike}", trial=trial))


def is_turned(case: Case, number: int, leaf: Leaf) -> bool:
    """Whether an output lies in another order than the reference's, which is contiguous."""
    return case.contiguous[number] and not leaf.in_order


def check_values(
    expected: Sequence[Expected],
    got: list[torch.Tensor],
    protocol: Protocol,
    trial: int | None,
    told: str = "",
    inputs: Sequence[torch.Tensor] = (),
) -> Agreement:
    """How far acceptable outputs are off; raises ``Ended`` otherwise. ``inputs`` are the call's."""
    found = Agreement()
    for number, (one, tensor) in enumerate(zip(expected, got, strict=True)):
        difference = compare(one, tensor, protocol)
        if not difference.ok:
            hint = of_infinities(inputs, one.native, tensor) or _hint(one, tensor, protocol)
            if not hint and trial is None and bool(tensor.isnan().all()):
                hint = _TIMED_NAN
            finding = Differs(
                reason=_named(difference.reason + hint, number, expected),
                told=told,
                trial=trial,
                max_abs_error=difference.max_abs_error,
                max_rel_error=difference.max_rel_error,
                detail=difference.detail,
            )
            raise Ended(finding)
        error, bound = error_and_bound(one, tensor, protocol) or (None, None)
        found = found.and_also(Agreement(difference.max_abs_error or 0.0, error, bound, trial))
    return found


def check_call(
    case: Case,
    expected: Sequence[Expected],
    got: list[torch.Tensor],
    protocol: Protocol,
    trial: int | None,
    looks: Looks,
) -> Agreement:
    """``check_values`` of a call on ``case``'s inputs, or of other ``looks`` at it."""
    told = case.changed or "random inputs"
    try:
        return check_values(expected, got, protocol, trial, told, case.tensors)
    except Ended:
        for other, mine in looks(case, expected, got) if protocol.allclose is None else ():
            with suppress(Ended):
                return check_values(other, mine, protocol, trial, told)
        if any(one.granted for one in expected):
            check_values(
                expected, got, protocol, trial, told, case.tensors
            )  # raises, and names what is granted
        raise


def check_left(
    left: Sequence[Left],
    got: list[torch.Tensor],
    protocol: Protocol,
    trial: int | None,
    told: str = "",
) -> None:
    """What a call has made of its inputs, where the reference changes them; raises ``Ended``."""
    for number, (one, tensor) in enumerate(zip(left, got, strict=True)):
        difference = compare(one.expected, tensor, protocol)
        if not difference.ok:
            reason = f"input {number}, which the reference changes: {difference.reason}"
            raise Ended(Differs(reason=reason, told=told, trial=trial, detail=difference.detail))
        how = one.wrongly_changed(tensor) if protocol.allclose is None else ""
        if how:
            reason = f"input {number} is to change, and has {how}"
            raise Ended(Differs(reason=reason, told=told, trial=trial))


def told_of(finding: Finding, where: str) -> Finding:
    """With the inputs on which it raised, or died."""
    if isinstance(finding, WorkerFailed) and finding.kind != "BuildFailed":
        return msgspec.structs.replace(finding, message=f"{finding.message} ({where})")
    return (
        msgspec.structs.replace(finding, told=where) if isinstance(finding, WorkerDied) else finding
    )


def _hint(expected: Expected, got: torch.Tensor, protocol: Protocol) -> str:
    native, margin = expected.native, expected.margin
    if not native.is_floating_point():
        return ""
    lost = got.isnan()
    if bool(lost.all()):
        return ""
    if bool(lost.any()):
        rest = torch.where(lost, native, got)
        right = compare(Expected.within(native, margin), rest, protocol).ok
        return _WRITTEN_OVER if right else ""
    if compare(Expected.within(native, margin), got, protocol).ok:
        return ""
    if not compare(Expected.within(native.abs(), margin), got.abs(), protocol).ok:
        return ""
    return "; only signs differ: where PyTorch leaves them open, as of eigenvectors, fix them"


def _leaf_problem(leaf: Leaf, expected: torch.Tensor, may_alias: bool) -> str | None:
    dtype = str(expected.dtype).removeprefix("torch.")
    if leaf.shape != tuple(expected.shape):
        return f"expected shape {list(expected.shape)}, got {list(leaf.shape)}"
    if leaf.dtype != dtype:
        return f"expected dtype {dtype}, got {leaf.dtype[:40]}"
    if not leaf.written:
        return f"it lies on {leaf.device[:40]}"
    if leaf.aliases_input and not may_alias:
        which = "" if leaf.of_input is None else f" (input {leaf.of_input})"
        return f"it shares memory with an input{which}: return a tensor of its own, as .clone() is"
    return None


def _named(problem: str, number: int, outputs: Sequence[Expected]) -> str:
    return problem if len(outputs) == 1 else f"output {number}: {problem}"
