"""Gated calls in a worker: inputs come encrypted, and each output is stored encrypted in its place.

An output that is dense in an order of its own is stored as it lies, and described so, where the
reference's is not in the order of its indices, either; otherwise it is brought into the reference's
order first, as a part of its call.
"""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from gpu_sandbox.ipc.worker_messages import Ran, Time
from gpu_sandbox.runtime.module_loader import seed_torch
from gpu_sandbox.tensors.gate_channel import GateChannel
from gpu_sandbox.tensors.gate_layout import GateKernels, StridedRegions, rounds
from gpu_sandbox.tensors.memory_layout import may_lie_so
from gpu_sandbox.tensors.pytree import plain_digest
from gpu_sandbox.tensors.shared_arena import Arena
from gpu_sandbox.worker.called_model import CalledModel
from gpu_sandbox.worker.outputs import Delivered, Slot, describe_outputs, fits, pack_outputs


class GatedOutputs:
    """Of one batch; ``outputs`` are all its places. Outputs of all calls lie as the first one's."""

    def __init__(self, kernels: GateKernels, stream: int, outputs: StridedRegions) -> None:
        self._kernels, self._stream, self._outputs = kernels, stream, outputs
        self._strides: dict[int, tuple[int, ...]] = {}

    def put(self, found: Delivered, slot: Slot, call: int, calls: range) -> None:
        """Store all outputs that are as expected, of one of a round's ``calls``."""
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
        """The last call's outputs, and how they lie in their places."""
        ran = describe_outputs(found, slot)
        leaves = [
            msgspec.structs.replace(leaf, stride=self._strides.get(number, ()))
            for number, leaf in enumerate(ran.leaves)
        ]
        return msgspec.structs.replace(ran, leaves=leaves)


def blank(place: torch.Tensor) -> torch.Tensor:
    """Zeros that lie as it does, gaps and all: storing them takes as long as storing an output."""
    zeros = torch.empty_strided(place.shape, place.stride(), dtype=place.dtype, device=place.device)
    return zeros.zero_()


class GatedCalls(CalledModel):
    """A model that can be called behind gates."""

    _blank: list[torch.Tensor]

    def _pass_gates(self, asked: Time, host: Arena) -> Ran:
        """Queue all calls; each round begins when the key to its inputs is there."""
        stream = self._backend.current_stream().cuda_stream
        channel, kernels = GateChannel(host, asked.calls), self.kernels
        assert kernels is not None
        slots = [self.slots[asked.first + number] for number in range(asked.calls)]
        self._blank = [blank(place) for place in slots[0].outputs] if asked.empty else []
        places, address = [slot.place for slot in slots], slots[0].address
        inputs = StridedRegions.of([place.inputs for place in places], address)
        outputs = StridedRegions.of([place.outputs for place in places], address)
        stored = GatedOutputs(kernels, stream, outputs)
        for number, calls in enumerate(rounds(asked.gate, asked.calls)):
            kernels.wait_for_key(stream, channel.given_at, number + 1, channel.key_at(number))
            kernels.crypt_inputs(stream, inputs, calls, kernels.taken_at)
            for k in calls:
                slot = slots[k]
                found = pack_outputs(self._queued(slot, asked, k))
                stored.put(found, slot, k, calls)
                channel.commit(k, plain_digest(found.tree))
                self._trees.append(found.tree)
                channel.queued.value = k + 1
            kernels.digest(stream, outputs, calls, channel.digest_at)
            if asked.left:
                kernels.digest(stream, inputs, calls, channel.left_at)
            self._backend.write_behind(stream, channel.done_at, number + 1)
        channel.queued.value = asked.calls + 1
        self._backend.synchronize()
        self._blank.clear()
        return stored.describe(found, slot)

    def _queued(self, slot: Slot, asked: Time, number: int) -> Any:
        """The output of a call that has been queued on this stream."""
        if asked.empty:
            return self._blank
        seed_torch(asked.seed + number, self._device)
        ours = self._backend.current_stream()
        output = self._model(*slot.arguments)
        self._backend.return_to(ours)
        return output
