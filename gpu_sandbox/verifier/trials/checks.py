"""Check an output's structure, shapes, aliasing and values against what a case expects."""

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
from gpu_sandbox.verifier.numerics.mutated_inputs import MutatedInput
from gpu_sandbox.verifier.numerics.rules.not_finite import nan_hint
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.worker_link.requests import Ended

Recheck: TypeAlias = tuple[Sequence[Expected], list[torch.Tensor]]
"""What is expected, and what is compared with it."""
Rechecks: TypeAlias = Callable[[Case, Sequence[Expected], list[torch.Tensor]], Iterator[Recheck]]
"""``RoundingRecheck.rechecks``, or ``timed_rechecks``."""
AcceptsCounts: TypeAlias = Callable[[Tree, Tree], bool]  # of one case

CHANGED_INPUTS = "it changed its inputs, which the reference leaves: write elsewhere"
_WRITTEN_OVER = (
    "; only NaN is wrong: callers write that over outputs when they are done with them, so memory"
    " that is taken again has to be written whole"
)
_TIMED_NAN = (
    "; all of it is NaN, and was not before it was timed, as where the output of an earlier call is"
    " returned: callers write NaN over outputs that they are done with"
)


class Agreement(NamedTuple):
    """Errors of acceptable outputs: the largest absolute one, and the one nearest to its bound,
    with that bound and its trial; none where values had to be equal."""

    worst: float = 0.0
    error: float | None = None
    bound: float | None = None
    trial: int | None = None

    def and_also(self, other: Agreement) -> Agreement:
        """Combine both."""
        nearer = other if other._nearness > self._nearness else self
        return nearer._replace(worst=max(self.worst, other.worst))

    @property
    def _nearness(self) -> float:
        if self.error is None or self.bound is None:
            return -1.0
        return self.error / self.bound if self.bound > 0 else 0.0


def _accepts_none(_: Tree, __: Tree) -> bool:
    return False


def check_shape(
    case: Case,
    ran: Ran,
    trial: int | None,
    tree: Tree | None = None,
    usual_sizes: Sequence[float] | None = None,
    *,
    any_order: bool = False,
    accepts_counts: AcceptsCounts = _accepts_none,
) -> None:
    """Check structure, shapes, dtypes, and aliasing as described; raise ``Ended`` on a difference.

    ``tree``: what the reference returned for the very inputs, if they were not the case's, and
    ``usual_sizes`` of its plain values then. ``any_order``: elements may lie in another order.
    """
    tree = tree or case.output_tree
    assert tree is not None
    unlike = same_shape(tree, ran.tree)
    if unlike or len(ran.leaves) != len(case.expected):
        raise Ended(Differs(reason=f"the output's structure differs: {unlike}", trial=trial))
    sizes = case.usual_sizes if usual_sizes is None else usual_sizes
    check_plain(tree, ran.tree, sizes, trial, accepts_counts)
    for number, leaf in enumerate(ran.leaves):
        if problem := _leaf_problem(case, number, leaf, any_order=any_order):
            raise Ended(Differs(reason=_named(problem, number, case.expected), trial=trial))


def _leaf_problem(case: Case, number: int, leaf: Leaf, *, any_order: bool) -> str:
    expected = case.expected[number].native
    dtype = str(expected.dtype).removeprefix("torch.")
    if leaf.shape != tuple(expected.shape):
        return f"expected shape {list(expected.shape)}, got {list(leaf.shape)}"
    if leaf.dtype != dtype:
        return f"expected dtype {dtype}, got {leaf.dtype[:40]}"
    if not leaf.written:
        return f"it lies on {leaf.device[:40]}"
    if leaf.aliases_input and not case.aliasing[number]:
        which = "" if leaf.of_input is None else f" (input {leaf.of_input})"
        return f"it shares memory with an input{which}: return a tensor of its own, as .clone() is"
    if leaf.overlapping and not case.overlapping[number]:
        return "its elements share memory, as an expanded tensor's do"
    if leaf.shared and not case.sharing[number]:
        return "it shares memory with another output"
    if not any_order and is_reordered(case, number, leaf):
        return (
            "its elements lie in another order than the reference's, which is contiguous: "
            ".contiguous() puts them in order"
        )
    return ""


def check_plain(
    tree: Tree,
    got: Tree,
    usual_sizes: Sequence[float],
    trial: int | None,
    accepts_counts: AcceptsCounts = _accepts_none,
) -> None:
    """Check plain values of outputs of the same structure; raise ``Ended`` on a difference.
    ``accepts_counts``: whether whole numbers that differ are as right."""
    unlike = same_values(tree, got, usual_sizes)
    if unlike and (
        same_values(tree, got, usual_sizes, but_whole=True) or not accepts_counts(tree, got)
    ):
        raise Ended(Differs(reason=f"a plain value of the output differs: {unlike}", trial=trial))


def is_reordered(case: Case, number: int, leaf: Leaf) -> bool:
    """Whether an output lies in another order than the reference's, which is contiguous."""
    return case.contiguous[number] and not leaf.in_order


def check_values(
    expected: Sequence[Expected],
    got: list[torch.Tensor],
    protocol: Protocol,
    trial: int | None,
    inputs_are: str = "",
    inputs: Sequence[torch.Tensor] = (),
) -> Agreement:
    """Return the errors of acceptable outputs; raise ``Ended`` otherwise. ``inputs_are``: a
    description of ``inputs``, the call's."""
    found = Agreement()
    for number, (one, tensor) in enumerate(zip(expected, got, strict=True)):
        difference = compare(one, tensor, protocol)
        if not difference.ok:
            hint = nan_hint(inputs, one.native, tensor) or _hint(one, tensor, protocol)
            if not hint and trial is None and bool(tensor.isnan().all()):
                hint = _TIMED_NAN
            finding = Differs(
                reason=_named(difference.reason + hint, number, expected),
                told=inputs_are,
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
    rechecks: Rechecks,
) -> Agreement:
    """``check_values`` of a call on ``case``'s inputs, or of what ``rechecks`` makes of it."""
    inputs_are = case.description or "random inputs"
    try:
        return check_values(expected, got, protocol, trial, inputs_are, case.tensors)
    except Ended:
        for other, mine in rechecks(case, expected, got) if protocol.allclose is None else ():
            with suppress(Ended):
                return check_values(other, mine, protocol, trial, inputs_are)
        if any(one.tf32_error for one in expected):  # raises, and names what is granted
            check_values(expected, got, protocol, trial, inputs_are, case.tensors)
        raise


def check_mutated(
    mutated: Sequence[MutatedInput],
    got: list[torch.Tensor],
    protocol: Protocol,
    trial: int | None,
    inputs_are: str = "",
) -> None:
    """Check inputs that the reference changes in place; raise ``Ended`` on a difference."""
    for number, (one, tensor) in enumerate(zip(mutated, got, strict=True)):
        difference = compare(one.expected, tensor, protocol)
        if not difference.ok:
            reason = f"input {number}, which the reference changes: {difference.reason}"
            detail = difference.detail
            raise Ended(Differs(reason=reason, told=inputs_are, trial=trial, detail=detail))
        how = one.wrong_change(tensor) if protocol.allclose is None else ""
        if how:
            reason = f"input {number}, which the reference changes, is changed {how}"
            raise Ended(Differs(reason=reason, told=inputs_are, trial=trial))


def with_inputs_named(finding: Finding, inputs_are: str) -> Finding:
    """Name the inputs on which a candidate raised or died."""
    if isinstance(finding, WorkerFailed) and finding.kind != "BuildFailed":
        return msgspec.structs.replace(finding, message=f"{finding.message} ({inputs_are})")
    if isinstance(finding, WorkerDied):
        return msgspec.structs.replace(finding, told=inputs_are)
    return finding


def _hint(expected: Expected, got: torch.Tensor, protocol: Protocol) -> str:
    """Say what alone is wrong, if it is NaN or signs."""
    native, margin = expected.native, expected.margin
    if not native.is_floating_point() or bool((lost := got.isnan()).all()):
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


def _named(problem: str, number: int, outputs: Sequence[Expected]) -> str:
    return problem if len(outputs) == 1 else f"output {number}: {problem}"
