"""Find out whether a wrong output was computed from an earlier call's inputs, or in that call.

A module may keep an input tensor, a pointer to it, a CUDA graph that reads its address, or outputs
by address. Here inputs are put elsewhere, and other ones where they were; what the output follows
is the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch

from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.bitwise import same_bits
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.trials.trial_calls import TrialCalls
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended

READS_EARLIER = (
    "it reads the memory of an earlier input: its output is right for what lies there now. Each "
    "call's inputs have addresses of their own: kept tensors, pointers and captured graphs have to "
    "be given the inputs of the present call"
)
KEPT_OUTPUT = (
    "its output is the same when its inputs hold other values: it was kept from an earlier call "
    "(by address or shape, say), or is computed without them"
)
_TRIES = 3  # as many as there are places for inputs: in one of them what was kept may be right

Answers = Callable[[Case, Case, list[torch.Tensor]], bool]
"""Whether outputs are those of the second case, within the margins of the first."""


def stale_reason(calls: TrialCalls, peer: Peer, case: Case, other: Case, answers: Answers) -> str:
    """Return ``KEPT_OUTPUT``, ``READS_EARLIER`` or nothing, for a candidate that was wrong on
    ``case``."""
    with suppress(Ended, Broken):
        natives = [expected.native for expected in case.expected]
        if answers(case, other, natives):  # they can't be told apart
            return ""
        for _ in range(_TRIES):
            _, outputs = calls.call(case, other, between=False)
            got = peer.taken(outputs)
            if answers(case, other, got):
                return READS_EARLIER
            again = calls.call_again(other)
            if all(map(same_bits, got, again)) and not all(map(_is_uniform, got)):
                return KEPT_OUTPUT
    return ""


def _is_uniform(tensor: torch.Tensor) -> bool:
    """Whether all elements are one value, or NaN, which may come from any call."""
    if not tensor.numel():
        return True
    first = tensor.reshape(-1)[:1]
    alike = (tensor == first) | ((tensor != tensor) & (first != first))
    return bool(alike.all())
