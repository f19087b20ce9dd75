"""What a timing depends on besides the code: versions, threads, precision modes, clocks."""

from __future__ import annotations

from typing import Any

import torch

from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.verifier.backends.lookup import backend_of

__all__ = ["conditions"]


def conditions(device: torch.device, precision: Precision) -> dict[str, Any]:
    """Names and plain values, for the log. Clocks as they are now, in MHz."""
    return {
        "torch": str(torch.__version__),
        "precision": precision,
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        **backend_of(device).conditions(),
    }
