"""Where the inputs of a call lie: elsewhere than those of the call before.

Memory that held an earlier call's inputs holds other ones of the task's by then. A module that
kept a tensor, a pointer or a graph of its first call would compute with these.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.reference.cases import Case


class Turn(NamedTuple):
    """The slots of the calls that are next, from ``first`` on, and what lies where in them."""

    first: int
    inputs: list[list[Spot]]
    outputs: list[list[Spot]]


def next_slot(last: int | None, slots: int) -> int:
    """One of so many that is not the ``last`` one, if there are two or more."""
    return 0 if last is None else (last + 1) % slots


def has_room_for_two(case: Case, peak_bytes: int, device: torch.device) -> bool:
    """Whether a worker's memory has room for two sets of inputs beside its outputs.

    ``peak_bytes``: device memory that the reference's forward needs besides. On the CPU memory is
    not looked at, and the answer is yes."""
    free = backend_of(device).free_bytes()
    if free is None:
        return True
    inputs = sum(tensor.nbytes for tensor in case.tensors)
    outputs = sum(expected.native.nbytes for expected in case.expected)
    return 2 * inputs + outputs + peak_bytes <= free
