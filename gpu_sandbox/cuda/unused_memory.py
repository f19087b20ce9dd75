"""Device memory that torch keeps for later, which nobody else can have meanwhile."""

from __future__ import annotations

import torch

__all__ = ["is_much", "keep_little", "leave_half"]

_LITTLE = 1 / 64
"""Of the device's memory. To give back so little is not worth it: that waits for processes that
end, and of 50 GB takes 0.14 s."""


def keep_little(device: torch.device) -> None:
    """Give back what torch keeps and does not use, if it is much. Between jobs: what a job finds
    does not depend on the one before it."""
    if device.type != "cuda":
        return
    if torch.cuda.memory_reserved(device) > _little(device):
        torch.cuda.empty_cache()


def is_much(size: int, device: torch.device) -> bool:
    """Whether so many bytes of the device's memory are more than may be kept between jobs."""
    return device.type == "cuda" and size > _little(device)


def leave_half(device: torch.device) -> None:
    """Give it back if it is more than what is free. Within a job, when others come to need memory:
    audits and trials of gigabytes leave next to none. The driver is asked only where it may matter:
    while a context is made it answers after 20 ms."""
    if device.type != "cuda":
        return
    kept = _kept(device)
    if kept > _little(device) and kept > torch.cuda.mem_get_info(device)[0]:
        torch.cuda.empty_cache()


def _kept(device: torch.device) -> int:
    """Bytes that nobody uses. Of the allocator's account as it is: to be told of one number, all of
    it is put in order, a third of a millisecond, twice in each of sixty looks of a verdict."""
    told = torch.cuda.memory_stats_as_nested_dict(device)
    reserved, used = (
        told[f"{which}_bytes"]["all"]["current"] for which in ("reserved", "allocated")
    )
    return int(reserved - used)


def _little(device: torch.device) -> float:
    return _LITTLE * torch.cuda.get_device_properties(device).total_memory
