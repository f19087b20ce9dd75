"""CUDA driver and context of a confined process, begun before it has foreign code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gpu_sandbox.confine import seccomp_filter


def start_driver() -> None:
    with _one_line_errors():
        torch.cuda.init()  # type: ignore[no-untyped-call]


def make_context(device: torch.device) -> None:
    with _one_line_errors():
        torch.empty(1, device=device)  # no kernel: a profiler would count it
        torch.cuda.synchronize(device)
    seccomp_filter.give_up_driver_sockets()


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """``SystemExit`` with the first line of torch's error."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise SystemExit(f"{type(error).__name__}: {reason}") from None
