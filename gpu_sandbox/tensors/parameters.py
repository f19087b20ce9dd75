"""Parameters and buffers of a module, by name."""

from __future__ import annotations

from typing import Any

import torch

from gpu_sandbox.tensors.pytree import odd


def held_by(model: Any) -> dict[str, torch.Tensor]:
    """Dense parameters and buffers, each under every full name that it has."""
    if not isinstance(model, torch.nn.Module):
        return {}
    held = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    return {name: t.detach() for name, t in held.items() if not odd(t)}
