"""Outputs of earlier calls that a candidate has kept, and may return again."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import msgspec
import torch

from gpu_sandbox.ipc.worker_messages import Ran

_MAX_KNOWN = 64


class EarlierOutputs:
    """Weak references: only what the candidate itself keeps can be returned once more."""

    def __init__(self) -> None:
        self._known: list[weakref.ref[torch.Tensor]] = []

    def add(self, tensors: Sequence[torch.Tensor]) -> None:
        """Remember outputs of a call; the newest of all are kept."""
        alive = [ref for ref in self._known if ref() is not None]
        more = [weakref.ref(tensor) for tensor in tensors if _has_memory(tensor)]
        self._known = [*alive, *more][-_MAX_KNOWN:]

    def marked(self, ran: Ran, tensors: Sequence[torch.Tensor]) -> Ran:
        """Mark leaves of ``ran`` whose tensors are memory of an earlier output."""
        alive = (ref() for ref in self._known)
        memory = {t.untyped_storage().data_ptr() for t in alive if t is not None}
        leaves = [
            msgspec.structs.replace(leaf, of_earlier=True)
            if _has_memory(tensor) and tensor.untyped_storage().data_ptr() in memory
            else leaf
            for leaf, tensor in zip(ran.leaves, tensors, strict=True)
        ]
        return msgspec.structs.replace(ran, leaves=leaves)


def _has_memory(tensor: torch.Tensor) -> bool:
    """A subclass may have none, or raise where it is asked."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and tensor.layout == torch.strided and tensor.numel() > 0
