"""Random parts of an input: half of it, one element in 64, or a few."""

from __future__ import annotations

import secrets

import torch

from gpu_sandbox.verifier.inputs.transforms import Part

ONE_IN = 64  # elements: that is sparse, and a few are no more


def random_places(count: int) -> torch.Tensor:
    """Draw places: one half of the time, else more, as often two as ten thousand."""
    number = 1
    if secrets.choice((True, False)):
        number = 1 << secrets.randbelow(max(1, (count // ONE_IN).bit_length()))
    seed = int.from_bytes(secrets.token_bytes(4), "big")
    return torch.randint(max(1, count), (number,), generator=torch.Generator().manual_seed(seed))


def random_subset(tensor: torch.Tensor, part: Part) -> torch.Tensor:
    """Draw a part, as booleans of its shape."""
    if part == "few":
        return _few(tensor)
    if part == "sparse":
        return _sparse(tensor)
    return _half(tensor, run=part == "run")


def _few(tensor: torch.Tensor) -> torch.Tensor:
    chosen = torch.zeros(tensor.numel(), dtype=torch.bool, device=tensor.device)
    if tensor.numel():
        chosen[random_places(tensor.numel()).to(tensor.device)] = True
    return chosen.view(tensor.shape)


def _sparse(tensor: torch.Tensor) -> torch.Tensor:
    """Scattered elements, one at least."""
    chosen = torch.empty(tensor.numel(), dtype=torch.bool, device=tensor.device)
    chosen.bernoulli_(1 / ONE_IN)
    if tensor.numel():
        chosen[secrets.randbelow(tensor.numel())] = True
    return chosen.view(tensor.shape)


def _half(tensor: torch.Tensor, *, run: bool) -> torch.Tensor:
    """Elements in half of the slices of each dimension, adjacent or scattered: any part of a
    dimension holds another share of them. Slices of a run are adjacent, without the ends."""
    chosen = torch.ones((), dtype=torch.bool, device=tensor.device)
    for dimension, count in enumerate(tensor.shape):
        shape = [1] * tensor.dim()
        shape[dimension] = count
        half = _inner_half_of(count) if run else _half_of(count)
        chosen = chosen & half.to(tensor.device).view(shape)
    return chosen


def _half_of(count: int) -> torch.Tensor:
    """Half of so many, one at least: (count,)."""
    order = torch.arange(count)
    if secrets.choice((True, False)):
        bits = int.from_bytes(secrets.token_bytes(4), "big")
        order = torch.randperm(count, generator=torch.Generator().manual_seed(bits))
    begin = secrets.randbelow(max(count, 1))
    return (order - begin) % max(count, 1) < max(1, count // 2)


def _inner_half_of(count: int) -> torch.Tensor:
    length, order = max(1, count // 2), torch.arange(count)
    begin = secrets.randbelow(max(1, count - length - 1)) + (count - length > 1)
    return (begin <= order) & (order < begin + length)
