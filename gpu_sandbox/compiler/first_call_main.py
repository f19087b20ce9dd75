"""The preparation child: one call of a candidate, for the files that compilers leave. Untrusted.

It does what the worker will do, in the same order, on other inputs and weights.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.accelerator.lookup import accelerator_of
from gpu_sandbox.extension_build import load_inline
from gpu_sandbox.extension_build.libraries import write_libraries
from gpu_sandbox.ipc.child_messages import Prepare, Step
from gpu_sandbox.ipc.framing import MAX_FDS, Channel
from gpu_sandbox.runtime.compiler_caches import packed
from gpu_sandbox.runtime.malloc_settings import keep_freed_memory
from gpu_sandbox.runtime.module_loader import construct, import_file, settle
from gpu_sandbox.runtime.task_file import TaskFile, moved

_MEMORY_SHARE = 0.125  # of the device's: the candidate that is judged meanwhile needs the rest
_SEEDS = 1 << 48


def main(*, control: int) -> None:
    keep_freed_memory()
    with socket.socket(fileno=control) as sock:
        channel: Channel[Prepare] = Channel(sock, Prepare, fds=MAX_FDS)
        order = channel.receive()
        _lay_out(order, channel.take_fds())
        with suppress(Exception, SystemExit):
            _call(order, channel)
        archive = packed(Path.cwd())
        if archive is not None:
            channel.send(Step(done="kept"), archive)


def _lay_out(order: Prepare, fds: list[int]) -> None:
    for name, text in (("candidate.py", order.candidate), ("task.py", order.task)):
        Path(name).write_text(text, encoding="utf-8", errors="surrogatepass")
    write_libraries(order.libraries, fds)


def _call(order: Prepare, channel: Channel[Prepare]) -> None:
    device = torch.device(order.device)
    accelerator = accelerator_of(device)
    accelerator.start_driver()
    accelerator.make_context()
    accelerator.limit_memory(_MEMORY_SHARE)
    settle(order.threads, order.precision)
    task = TaskFile(str(Path("task.py").resolve()))
    init: Any = task.init_inputs(secrets.randbelow(_SEEDS))
    inputs = task.inputs(secrets.randbelow(_SEEDS), device)
    channel.send(Step(done="drawn"))
    load_inline.install(order.candidate)
    module: Any = import_file("candidate", str(Path("candidate.py").resolve()))
    init = moved(init, device)
    model = construct(module.ModelNew, init, secrets.randbelow(_SEEDS), device)
    channel.send(Step(done="loaded"))
    with torch.no_grad():
        model(*inputs)
    accelerator.synchronize()
    channel.send(Step(done="called"))
