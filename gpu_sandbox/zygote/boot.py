"""The first lines of every child: tie its life to the engine's, take limits, start its role.

Run as a script under ``-I``; imports nothing of ours, and nothing heavy, before the
limits hold. The words come as JSON in argv: nothing secret travels there.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import resource
import signal
import sys
import threading

_F_SETSIG = getattr(fcntl, "F_SETSIG", 10)


def die_with_parent(watch: int) -> None:
    """Have the kernel kill our group when the engine's end of the pipe closes.

    ``O_ASYNC`` needs no thread and no GIL, so a candidate stuck in C dies as well;
    PDEATHSIG would fire when the engine's *thread* ends, and reaches no descendants.
    """
    try:
        fcntl.fcntl(watch, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(watch, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(watch, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    except OSError:
        threading.Thread(target=_wait_and_die, args=(watch,), daemon=True).start()
        return
    try:
        if os.read(watch, 1) == b"":  # it died before we were armed
            os.killpg(0, signal.SIGKILL)
    except BlockingIOError:
        pass


def _wait_and_die(watch: int) -> None:
    os.set_blocking(watch, True)
    os.read(watch, 1)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    boot = json.loads(sys.argv[1])
    die_with_parent(boot["watch"])
    for name, value in boot["rlimits"].items():
        limit = getattr(resource, name)
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    sys.argv[1:] = []
    sys.path[:] = boot["path"]
    module = importlib.import_module(boot["module"])
    module.main(**boot["arguments"])


if __name__ == "__main__":
    main()
