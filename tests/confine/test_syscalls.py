"""Linux calls that Python has no name for."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

_SCRIPT = """
import os, signal, time
from gpu_sandbox.confine.syscalls import ignore_child_stops
heard = []
signal.signal(signal.SIGCHLD, lambda *_: heard.append("child"))
if WITHOUT_STOPS:
    ignore_child_stops()
pid = os.fork()
if pid == 0:
    signal.pause()
os.kill(pid, signal.SIGSTOP)
os.waitpid(pid, os.WUNTRACED)
time.sleep(0.2)
of_stop = len(heard)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
time.sleep(0.2)
print(of_stop, len(heard))
"""


def _heard(*, without_stops: bool) -> list[int]:
    script = _SCRIPT.replace("WITHOUT_STOPS", str(without_stops))
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, timeout=60
    )
    return [int(word) for word in told.stdout.split()]


def test_a_parent_may_hear_of_ends_only() -> None:
    assert _heard(without_stops=False) == [1, 2]
    assert _heard(without_stops=True) == [0, 1]
