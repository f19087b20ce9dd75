"""A confined process's CUDA context, made while it holds no foreign code."""

from __future__ import annotations

import torch

from gpu_sandbox.confine import seccomp

__all__ = ["make_context"]


def make_context(device: torch.device) -> None:
    """And give up what only that took. ``SystemExit`` with torch's reason if there can be none."""
    try:
        torch.empty(1, device=device)  # no kernel, which a profiler would take for the candidate's
        torch.cuda.synchronize(device)
    except Exception as error:  # torch's words go on with advice for several lines
        reason = (str(error).splitlines() or [""])[0]
        raise SystemExit(f"{type(error).__name__}: {reason}") from None
    seccomp.give_up_driver_sockets()
