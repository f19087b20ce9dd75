"""What a timing depends on besides the code: versions, threads, precision modes, clocks."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import torch

from gpu_sandbox.api.protocols import Precision

__all__ = ["conditions"]

_ASKED = ("driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "pstate")


def conditions(device: torch.device, precision: Precision) -> dict[str, Any]:
    """Names and plain values, for the log. Clocks as they are now, in MHz."""
    found: dict[str, Any] = {
        "torch": str(torch.__version__),
        "precision": precision,
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    if device.type == "cpu":
        return {**found, "cores": sorted(os.sched_getaffinity(0))}
    return {
        **found,
        "cuda": torch.version.cuda,
        "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        **_asked_of_the_driver(),
    }


def _asked_of_the_driver() -> dict[str, str]:
    """By nvidia-smi, of the one device that we see. Nothing where there is no such tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    query = f"--query-gpu={','.join(_ASKED)}"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    command = [tool, query, "--format=csv,noheader,nounits", f"--id={visible}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in done.stdout.split(",")]
    return dict(zip(_ASKED, values, strict=False))
