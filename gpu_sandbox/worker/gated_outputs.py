"""Outputs behind gates, on the worker's side: each goes to its place, enciphered, as it lies.

An output that is dense in an order of its own needs no other one where the reference's is not in
the order of its indices, either: whoever called gets it as it is, too. So its bytes go one after
the other, and it is told how they are to be read. Where the reference's is, a call is done only
when the candidate's is.
"""

from __future__ import annotations

import msgspec
import torch

from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.tensors.gate_layout import GateKernels, StridedRegions
from gpu_sandbox.tensors.memory_layout import may_lie_so
from gpu_sandbox.worker.outputs import Delivered, Slot, describe_outputs, fits


class GatedOutputs:
    """Of one release; ``outputs`` are all its places. How the first call's outputs lie, the others'
    do in their places, too."""

    def __init__(self, kernels: GateKernels, stream: int, outputs: StridedRegions) -> None:
        self._kernels, self._stream, self._outputs = kernels, stream, outputs
        self._strides: dict[int, tuple[int, ...]] = {}

    def put(self, found: Delivered, slot: Slot, call: int, calls: range) -> None:
        """All that are as expected, of one of the calls of a round."""
        for number, (tensor, to) in enumerate(zip(found.tensors, slot.outputs, strict=False)):
            if not fits(tensor, to):
                continue
            if number not in self._strides:
                own = tensor.stride()
                self._strides[number] = own if may_lie_so(to, own) else to.stride()
            if self._strides[number] != to.stride():
                to = to.as_strided(to.shape, self._strides[number])
            first = self._outputs.block(call, to.data_ptr(), calls)
            self._kernels.store_encrypted(self._stream, tensor, to, first, self._kernels.taken_at)

    def describe(self, found: Delivered, slot: Slot) -> Ran:
        """Of the last call's outputs, and how they lie in their places."""
        ran = describe_outputs(found, slot)
        leaves = [
            msgspec.structs.replace(leaf, stride=self._strides.get(number, ()))
            for number, leaf in enumerate(ran.leaves)
        ]
        return msgspec.structs.replace(ran, leaves=leaves)


def blank(place: torch.Tensor) -> torch.Tensor:
    """Zeros that lie as it does, gaps and all: or more would be done with them than with an output
    that does."""
    lies = torch.empty_strided(place.shape, place.stride(), dtype=place.dtype, device=place.device)
    return lies.zero_()
