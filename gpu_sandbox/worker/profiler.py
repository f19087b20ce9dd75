"""Profile of a candidate by torch's profiler, in its own process: a statement like all it reports.

``torch.profiler`` would gather facts about the machine for a second or two before it starts; this
is ``torch.autograd``'s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.autograd.profiler import profile as recorded

from events.observations import MOST_NAME, MOST_ROWS, Profile, ProfileRow
from gpu_sandbox.worker.backends.lookup import backend_of
from gpu_sandbox.worker.timed_calls import TimedModel


def profile(clocked: TimedModel, calls: int, device: torch.device) -> Profile:
    """``calls`` forwards: kernels and copies of a GPU, or operators of the CPU."""
    backend = backend_of(device)
    with _hushed(), recorded(use_kineto=True, **backend.profiler_options()) as seen:
        began = time.perf_counter_ns()
        clocked.repeat(calls)
        wall_ns = time.perf_counter_ns() - began
    times = backend.times_of(seen)
    rows = [
        ProfileRow(name=name[:MOST_NAME], count=len(each), own_ns=sum(each))
        for name, each in times.items()
    ]
    rows.sort(key=lambda row: -row.own_ns)
    return Profile(
        what=backend.profiles,
        calls=calls,
        wall_ns=wall_ns,
        own_ns=sum(row.own_ns for row in rows),
        rows=rows[:MOST_ROWS],
    )


@contextmanager
def _hushed() -> Iterator[None]:
    """The profiler prints its start and end."""
    kept = os.dup(1), os.dup(2)
    nowhere = os.memfd_create("nowhere")
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        os.close(nowhere)
        for number, fd in zip((1, 2), kept, strict=True):
            os.dup2(fd, number)
            os.close(fd)
