"""Entry point of the autopsy child: one call of a candidate in a fresh interpreter, under a tool.

Untrusted. A fork of the zygote takes the order and executes the tool, since sanitizers have to be
there before the first allocation. Nothing is measured or compared: what the tool prints counts.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree

from gpu_sandbox.accelerator.lookup import accelerator_of
from gpu_sandbox.extension_build import load_inline
from gpu_sandbox.extension_build.libraries import write_libraries
from gpu_sandbox.ipc.child_messages import Examine
from gpu_sandbox.ipc.framing import MAX_FDS, Channel
from gpu_sandbox.runtime.module_loader import construct, import_file, settle
from gpu_sandbox.tensors.pytree import TASK_MODULE

_FRESH = (
    "import json, sys; order = json.loads(sys.argv[1]); sys.path[:] = order['path'];"
    " from gpu_sandbox.probes.single_call_main import examine; examine(order['device'])"
)


def main(*, control: int) -> None:
    """Lay out the files, and exec."""
    with socket.socket(fileno=control) as sock:
        channel: Channel[Examine] = Channel(sock, Examine, fds=MAX_FDS)
        order = channel.receive()
        for name, text in (("candidate.py", order.candidate), ("task.py", order.task)):
            Path(name).write_text(text, encoding="utf-8", errors="surrogatepass")
        write_libraries(order.libraries, channel.take_fds())
    words = json.dumps({"path": sys.path, "device": order.device})
    command = [*order.tool, sys.executable, "-I", "-B", "-u", "-c", _FRESH, words]
    os.execve(command[0], command, {**os.environ, **order.environment})


def examine(device: str) -> None:
    """Import, construct and call once, as the worker does; prints an exception."""
    settle(torch.get_num_threads())
    load_inline.install()
    where = torch.device(device)
    accelerator_of(where).make_context()
    task: Any = import_file(TASK_MODULE, str(Path("task.py").resolve()))
    init: Any = getattr(task, "get_init_inputs", list)()
    inputs = _pytree.tree_map_only(torch.Tensor, lambda t: t.to(where), task.get_inputs())
    try:
        module: Any = import_file("candidate", str(Path("candidate.py").resolve()))
        model = construct(module.ModelNew, init, 0, where)
        with torch.no_grad():
            model(*inputs)
        accelerator_of(where).synchronize()
    except Exception as error:
        print(f"it raised {type(error).__name__}: {str(error)[:500]}")
