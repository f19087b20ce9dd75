"""A confined process's CUDA driver and context, begun while it holds no foreign code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gpu_sandbox.confine import seccomp_filter


def start_driver() -> None:
    """What a context needs and what disturbs nobody on the device. Raises what
    ``make_context`` raises."""
    with _in_a_line():
        torch.cuda.init()  # type: ignore[no-untyped-call]


def make_context(device: torch.device) -> None:
    """And give up what only that took. ``SystemExit`` with torch's reason if there can be none."""
    with _in_a_line():
        torch.empty(1, device=device)  # no kernel, which a profiler would take for the candidate's
        torch.cuda.synchronize(device)
    seccomp_filter.give_up_driver_sockets()


@contextmanager
def _in_a_line() -> Iterator[None]:
    """torch's words go on with advice for several."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise SystemExit(f"{type(error).__name__}: {reason}") from None
