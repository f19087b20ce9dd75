"""State of a module: its tensors, and buffers that a forward updates."""

from __future__ import annotations

from typing import Any

import torch

from gpu_sandbox.tensors.bitwise import same_bits
from gpu_sandbox.tensors.pytree import mapped, odd

_NAMED = 3


def state(model: Any) -> list[torch.Tensor]:
    """List its tensors, registered or not: its next call may overwrite them."""
    found: list[torch.Tensor] = []
    for module in model.modules():
        bare = {k: v for k, v in vars(module).items() if k not in ("_parameters", "_modules")}
        mapped(list(bare.values()), found.append)
    return found


def buffers(model: Any) -> dict[str, torch.Tensor]:
    """Copy its buffers, by name."""
    return {name: t.detach().clone() for name, t in model.named_buffers() if not odd(t)}


def alike(before: torch.Tensor, now: torch.Tensor) -> bool:
    """Whether both are equal bit by bit, of the same shape and dtype."""
    if (before.shape, before.dtype) != (now.shape, now.dtype) or odd(now):
        return False
    return same_bits(before, now)


def changed(before: dict[str, torch.Tensor], model: Any) -> list[str]:
    """Name the buffers that have changed."""
    now = dict(model.named_buffers())
    return [name for name, t in before.items() if name not in now or not alike(t, now[name])]


def state_notes(updates: list[str]) -> list[str]:
    if not updates:
        return []
    more = len(updates) - _NAMED
    names = ", ".join(updates[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [f"the reference updates {names}: whether a candidate does is not compared"]
