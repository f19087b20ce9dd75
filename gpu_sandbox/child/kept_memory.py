"""Device memory that torch keeps for later: ours to use, and nobody else's meanwhile."""

from __future__ import annotations

import torch

__all__ = ["free_bytes", "keep_little", "leave_half"]

_LITTLE = 1 / 64
"""Of the device's memory."""


def free_bytes(device: torch.device) -> int:
    """What nobody uses, be it kept here."""
    return torch.cuda.mem_get_info(device)[0] + _kept_bytes(device)


def leave_half(device: torch.device) -> None:
    """Keep no more than is free for a process that needs some now."""
    if device.type == "cuda" and _kept_bytes(device) > torch.cuda.mem_get_info(device)[0]:
        torch.cuda.empty_cache()


def keep_little(device: torch.device) -> None:
    """Of what nobody may need here soon. Little is: to give it back waits for processes that
    end."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        if torch.cuda.memory_reserved(device) > _LITTLE * total:
            torch.cuda.empty_cache()


def _kept_bytes(device: torch.device) -> int:
    return torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
