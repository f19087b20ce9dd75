"""The compile child: imports the candidate so that its extensions get built. Untrusted.

It reports after the import and, where something is built inside a function, again after trying to
construct the model on the meta device. That second part may fail: the worker constructs anyway.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import torch

from gpu_sandbox.compiler.fake_device import pretend_cuda
from gpu_sandbox.extension_build import load_inline
from gpu_sandbox.extension_build.load_inline import BuildFailed, Builds
from gpu_sandbox.ipc.child_messages import MAX_BUILT, Built, Compile
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.runtime.candidate_traceback import one_line, own_traceback
from gpu_sandbox.runtime.module_loader import construct, import_file
from gpu_sandbox.tensors.pytree import TASK_MODULE

_MAX_KERNELS = 100
_BLAMELESS = (ImportError, SyntaxError, NameError, AttributeError, TypeError, BuildFailed)
"""With a device pretended, only these are surely the candidate's own fault."""


def main(*, control: int, pretend: dict[str, Any] | None) -> None:
    torch.set_num_threads(1)
    root = Path.cwd() / "extensions"
    root.mkdir(exist_ok=True)
    os.environ[load_inline.DIRECTORY_VARIABLE] = str(root)
    if pretend is not None:
        pretend_cuda(pretend)
    with socket.socket(fileno=control) as sock:
        channel: Channel[Compile] = Channel(sock, Compile)
        order = channel.receive()
        path = str(_written("candidate.py", order.candidate))
        builds = load_inline.install(order.candidate)
        try:
            module = import_file("candidate", path)
        except (Exception, SystemExit) as error:
            failed = _failed(error, builds, path, sure=pretend is None)
            _send(channel, failed, root)
            return
        _send(channel, _built(builds), root)
        if order.late:
            _try_to_construct(module, str(_written("task.py", order.task)))
            _send(channel, _built(builds), root)


def _written(name: str, source: str) -> Path:
    path = Path.cwd() / name
    path.write_text(source, encoding="utf-8", errors="surrogatepass")
    return path


def _send(channel: Channel[Compile], built: Built, root: Path) -> None:
    """With what was built, as open files: the engine can't read our directory."""
    if built.failure:
        channel.send(built)
        return
    paths = [p for p in (root / "manifest.json", *sorted(root.glob("*/*.so"))) if p.is_file()]
    with ExitStack() as stack:
        files = [stack.enter_context(open(p, "rb")) for p in paths[:MAX_BUILT]]
        names = [str(p.relative_to(root)) for p in paths[:MAX_BUILT]]
        message = msgspec.structs.replace(built, files=names)
        try:
            channel.send(message, *(f.fileno() for f in files))
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:  # of this user's are under way, not all of ours
                raise
            channel.send(built)  # the worker will have to build


def _built(builds: Builds) -> Built:
    """Failed builds that the candidate recovered from are in the log."""
    log = "\n".join([*(failure.log for failure in builds.failures), *builds.notices])
    return Built(
        extensions=builds.built,
        full_header=builds.full_header,
        log=log,
        resources=builds.resources[:_MAX_KERNELS],
        lines=builds.lines,
    )


def _failed(error: BaseException, builds: Builds, path: str, *, sure: bool) -> Built:
    if builds.failures:
        failure = builds.failures[-1]
        return Built(failure=str(failure)[:500], log=failure.log)
    trace = own_traceback(error, path)
    if sure or isinstance(error, _BLAMELESS):
        return Built(failure=one_line(error), log=trace)
    return Built(deferred=one_line(error), log=trace)


def _try_to_construct(module: Any, task: str) -> None:
    with contextlib.suppress(Exception, SystemExit):
        made = import_file(TASK_MODULE, task)
        init: Any = getattr(made, "get_init_inputs", list)()
        with torch.device("meta"):
            construct(module.ModelNew, init, 0, torch.device("meta"))
