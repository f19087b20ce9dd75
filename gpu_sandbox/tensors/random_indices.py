"""Random places of a tensor. At equal distances some dimensions might have one index only."""

from __future__ import annotations

import secrets
from functools import cache

import torch


def some_of(count: int, wanted: int, device: torch.device) -> torch.Tensor:
    """About ``wanted`` of the first ``count`` whole numbers, in order, each once: (places,)."""
    step = max(1, count // wanted)
    first = torch.arange(0, count - step + 1, step, device=device)
    by = torch.randint(step, first.shape, device=device, generator=_draws(device))
    return first.add_(by)


@cache
def _draws(device: torch.device) -> torch.Generator:
    """Not torch's own generator: what a model draws must not depend on checks."""
    return torch.Generator(device).manual_seed(secrets.randbits(63))
