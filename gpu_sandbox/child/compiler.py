"""The compile child: imports the candidate so that its extensions get built. Untrusted.

It reports once after the import and, if something is built inside a function, again
after trying to construct the model on the meta device. That second part may fail or die
as it likes: the worker will construct in earnest.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.child import extensions
from gpu_sandbox.child.blame import one_line, own_traceback
from gpu_sandbox.child.extensions import BuildFailed, Builds
from gpu_sandbox.child.loading import construct, import_file
from gpu_sandbox.child.pretend import pretend_cuda
from gpu_sandbox.frames import Channel
from gpu_sandbox.logs import cut_compiler_output, first_error
from gpu_sandbox.messages import Built

__all__ = ["main"]

_BLAMELESS = (ImportError, SyntaxError, NameError, AttributeError, TypeError, BuildFailed)
"""With a device pretended, only these are surely the candidate's own fault."""


def main(
    *, control: int, task: str, candidate: str, pretend: dict[str, Any] | None, late: bool
) -> None:
    torch.set_num_threads(1)
    builds = extensions.install()
    if pretend is not None:
        pretend_cuda(pretend)
    with socket.socket(fileno=control) as sock:
        channel: Channel[Built] = Channel(sock, Built)
        source = Path(candidate).read_text(encoding="utf-8", errors="surrogatepass")
        try:
            module = import_file("candidate", candidate)
        except (Exception, SystemExit) as error:
            channel.send(_failed(error, builds, candidate, source, sure=pretend is None))
            return
        channel.send(_built(builds, source))
        if late:
            _try_to_construct(module, task)
            channel.send(_built(builds, source))


def _built(builds: Builds, source: str) -> Built:
    """Builds that failed and were got over by the candidate are in the log."""
    log = "\n".join(_compiler_log(failure, source) for failure in builds.failures)
    return Built(extensions=builds.built, full_header=builds.full_header, log=log)


def _failed(error: BaseException, builds: Builds, path: str, source: str, *, sure: bool) -> Built:
    if builds.failures:
        failure = builds.failures[-1]
        log = _compiler_log(failure, source)
        reason = f"extension {failure.name!r} did not build: {first_error(log)}"
        return Built(failure=reason[:500], log=log)
    told = own_traceback(error, path)
    if sure or isinstance(error, _BLAMELESS):
        return Built(failure=one_line(error), log=told)
    return Built(deferred=one_line(error), log=told)


def _compiler_log(failure: BuildFailed, source: str) -> str:
    return cut_compiler_output(failure.output, failure.generated, source)


def _try_to_construct(module: Any, task: str) -> None:
    with contextlib.suppress(Exception, SystemExit):
        made = import_file("task", task)
        init: Any = getattr(made, "get_init_inputs", list)()
        with torch.device("meta"):
            construct(module.ModelNew, init, 0, torch.device("meta"))
