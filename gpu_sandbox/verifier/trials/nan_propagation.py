"""Note whether NaN and infinity propagate as in the reference.

No failure: fast kernels often compute ``max(x, 0)``. Some die of an index made of NaN, so this
comes last, when all is measured.
"""

from __future__ import annotations

import math

import torch

from gpu_sandbox.ipc.verifier_messages import (
    Differs,
    Finding,
    WorkerDied,
    WorkerFailed,
    WorkerSilent,
)
from gpu_sandbox.ipc.worker_messages import Ran, Run
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.chunked import finite
from gpu_sandbox.tensors.shared_arena import lay_out
from gpu_sandbox.verifier.inputs.transforms import Transform
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.checks import check_shape
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended

NON_FINITE = "NaN and infinity"

_MIN_LIMIT_S, _LIMIT_RATIO = 2.0, 20.0  # for an answer: at least, and times the forward
_UNLIKE = "NaN or infinity in the input comes out unlike the reference's"


def propagation_note(task: Task, peer: Peer) -> str:
    """Compare with the reference; empty if it is the same, or can't be known. Nothing that the
    candidate does now changes its verdict."""
    if NON_FINITE in task.leave_out:
        return ""
    try:
        case = task.draw("non-finite", 0, Transform(NON_FINITE, non_finite, []))
        task.solve(case, exact=False)
    except Broken:
        return ""
    if all(finite(expected.native) for expected in case.expected):
        return ""
    try:
        limit_s = max(_MIN_LIMIT_S, _LIMIT_RATIO * task.forward_s)
        return "" if _is_alike(case, peer, limit_s) else _UNLIKE
    except Ended as ended:
        return _note(ended.finding)


def _is_alike(case: Case, peer: Peer, limit_s: float) -> bool:
    layout = lay_out(case.tensors, [e.native for e in case.expected], 1)
    peer.lay(layout, [case])
    peer.put([case])
    peer.send(Run(slot=0, seed=case.forward_seed), "run")
    ran = peer.take(Ran, "run", limit_s)
    got = peer.taken(layout.outputs[0])
    check_shape(case, ran, None)
    pairs = zip(case.expected, got, strict=True)
    return all(_same_kind(one.native, tensor) for one, tensor in pairs)


def _note(finding: Finding) -> str:
    where = "where NaN or infinity is in the input"
    match finding:
        case Differs():  # a plain number, or a shape
            return _UNLIKE
        case WorkerFailed():
            return f"it raises {where}"
        case WorkerDied():
            return f"it dies {where}"
        case WorkerSilent():
            return f"it does not end {where}"
        case _:
            return ""


def _same_kind(native: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether NaN, and infinities, are in the same places."""
    if not native.is_floating_point():
        return True
    same_nan = torch.equal(torch.isnan(native), torch.isnan(got))
    return same_nan and torch.equal(torch.isinf(native), torch.isinf(got))


def non_finite(tensor: torch.Tensor) -> torch.Tensor:
    """Make the first element NaN, the last infinite."""
    changed = tensor.clone(memory_format=torch.contiguous_format)
    if changed.numel():
        changed.view(-1)[-1] = math.inf
        changed.view(-1)[0] = math.nan
    return changed
