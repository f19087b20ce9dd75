"""Outputs of a call in a worker: delivery to their places, and their description."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from gpu_sandbox.ipc.cpu_call_messages import NOWHERE, Answer, Where
from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.ipc.worker_messages import Leaf, Place, Ran
from gpu_sandbox.tensors.memory_layout import (
    among_storages,
    extent_of,
    in_order,
    is_spread,
    overlapping,
    reach_bytes,
    sharing,
    storages,
)
from gpu_sandbox.tensors.overwriting import MAX_OVERWRITTEN
from gpu_sandbox.tensors.pytree import pack
from gpu_sandbox.tensors.shared_arena import Arena


class Slot:
    """Arguments of one call, their tensors, and views of its outputs' places."""

    def __init__(
        self,
        arguments: Any,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        arena: Arena,
        place: Place,
    ) -> None:
        self.arguments = arguments
        self.inputs = inputs
        self.outputs = outputs
        self.place = place
        self.address = arena.address
        self.answer = Answer([tensor.dim() for tensor in outputs])
        self.nowhere = [Where(NOWHERE, (0,) * tensor.dim()) for tensor in outputs]
        self.forms = [
            (tensor.shape, tensor.dtype, _contiguous_stride(tensor)) for tensor in outputs
        ]


class Delivered(NamedTuple):
    tree: Tree
    tensors: list[torch.Tensor]


def deliver(output: Any, slot: Slot) -> Delivered:
    """Copy each output tensor that fits to its place."""
    found = pack_outputs(output)
    _copy(found.tensors, slot.outputs)
    return found


def pack_outputs(output: Any) -> Delivered:
    found: list[torch.Tensor] = []
    return Delivered(pack(output, found, pickling=False), found)


def in_index_order(output: Any) -> Any:
    """The output with each tensor in the order of its indices; only plain structures change."""
    if isinstance(output, torch.Tensor):
        return output if _in_order(output) else output.contiguous()
    if type(output) in (list, tuple):
        return type(output)(map(in_index_order, output))
    if isinstance(output, tuple) and hasattr(output, "_make"):
        return output._make(map(in_index_order, output))
    return {k: in_index_order(v) for k, v in output.items()} if type(output) is dict else output


def locate_outputs(
    tensors: list[torch.Tensor], slot: Slot
) -> tuple[list[tuple[int, tuple[int, ...]]], list[torch.Tensor], int]:
    """Address and stride of each output that is as expected, copies of those that can't be read as
    they lie, and the nanoseconds that copying took. The usual case costs as little as can be
    (``TimedBatch.output_ns``)."""
    found: list[tuple[int, tuple[int, ...]]] = [*slot.nowhere]
    held: list[torch.Tensor] = []
    copied_ns = 0
    for number, (tensor, form) in enumerate(zip(tensors, slot.forms, strict=False)):
        shape, dtype, stride = form
        if (
            type(tensor) is torch.Tensor
            and tensor.is_cpu
            and tensor.shape == shape
            and tensor.dtype is dtype
            and tensor.layout is torch.strided
            and tensor.is_contiguous()
            and not (tensor.is_conj() or tensor.is_neg())
        ):
            found[number] = (tensor.data_ptr(), stride)
        elif fits(tensor, slot.outputs[number]):
            began = time.perf_counter_ns()
            tensor = _readable(tensor, slot.outputs[number])
            copied_ns += time.perf_counter_ns() - began
            found[number] = (tensor.data_ptr(), tensor.stride())
            held.append(tensor)
    return found, held, copied_ns


def _contiguous_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    return torch.empty(tensor.shape, device="meta").stride()


def _readable(tensor: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    if type(tensor) is not torch.Tensor:  # it may have no memory, or not say where that is
        tensor = torch.empty_like(place).copy_(tensor)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if not tensor.is_contiguous() and is_spread(tensor):
        tensor = tensor.contiguous()
    return tensor


def reclaimable(
    output: Any,
    owned: Sequence[bool],
    others: Sequence[torch.Tensor],
    inputs: frozenset[int] = frozenset(),
) -> list[torch.Tensor]:
    """Tensors of the memory of outputs that are ``owned`` by the caller, which may overwrite it.
    Not the memory of ``others``, nor of ``inputs``, given by address."""
    tensors = pack_outputs(output).tensors
    there = inputs | storages(others) if others else inputs
    all_of_them = zip(tensors, owned, among_storages(tensors, there), strict=False)
    return [
        _part(tensor.detach())
        for tensor, theirs, other in all_of_them
        if theirs and not other and _is_own(tensor)
    ]


def _part(tensor: torch.Tensor) -> torch.Tensor:
    """All of it, or of a large one a random eighth: all would take much of a verdict's time."""
    if tensor.nbytes <= MAX_OVERWRITTEN:
        return tensor
    dimension = max(range(tensor.dim()), key=lambda d: tensor.shape[d])
    count = tensor.shape[dimension]
    length = -(-count // 8)
    return tensor.narrow(dimension, secrets.randbelow(count - length + 1), length)


def _is_own(tensor: torch.Tensor) -> bool:
    """Whether each element has a place of its own."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and tensor.layout == torch.strided and not overlapping(tensor)


def _copy(tensors: list[torch.Tensor], places: list[torch.Tensor]) -> None:
    for tensor, place in zip(tensors, places, strict=False):
        if fits(tensor, place):
            place.copy_(tensor.detach())


def fits(tensor: torch.Tensor, place: torch.Tensor) -> bool:
    """Whether a tensor is as expected in that place."""
    return (
        tensor.shape == place.shape
        and tensor.dtype == place.dtype
        and tensor.device.type == place.device.type
        and tensor.layout == torch.strided
    )


def describe_outputs(found: Delivered, slot: Slot) -> Ran:
    places = slot.outputs
    shared = sharing([extent_of(tensor) for tensor in found.tensors])
    leaves = [
        Leaf(
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device=tensor.device.type,
            written=number < len(places) and fits(tensor, places[number]),
            aliases_input=(input_ := _shared_input(tensor, slot.inputs)) is not None,
            of_input=input_,
            overlapping=overlapping(tensor),
            shared=shared[number],
            in_order=_in_order(tensor),
        )
        for number, tensor in enumerate(found.tensors)
    ]
    return Ran(tree=found.tree, leaves=leaves)


def _in_order(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and in_order(tensor.shape, tensor.stride())


def _shared_input(tensor: torch.Tensor, inputs: list[torch.Tensor]) -> int | None:
    """The number of the input whose bytes contain it."""
    if tensor.numel() == 0 or tensor.layout != torch.strided:
        return None
    begin = tensor.data_ptr()
    for number, one in enumerate(inputs):
        if one.data_ptr() <= begin < one.data_ptr() + max(reach_bytes(one), 1):
            return number
    return None
