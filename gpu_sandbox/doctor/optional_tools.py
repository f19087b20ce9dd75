"""What an evaluation can do without, and what is lost then. None of it is ever a failure."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from gpu_sandbox.api.check import Check
from gpu_sandbox.backends.machine_checks import found
from gpu_sandbox.toolchain.environment import child_environment
from gpu_sandbox.toolchain.prerequisites import ninja

__all__ = ["OPTIONAL"]

_DRIVER = Path("/dev/nvidiactl")
_TRITON_S = 120
_TRITON = """
import triton
from triton.runtime import driver
print(triton.__version__, "on", driver.active.get_current_target())
"""


def _ninja() -> Check:
    lost = "no extension is built, so only candidates without load_inline can be judged"
    return found("ninja", ninja(), lost, "pip install ninja")


def _triton() -> Check:
    """Imported, and asked for its device, in a process of its own: it takes a second."""
    lost, fix = "Triton candidates can't run", "pip install triton (Triton candidates only)"
    if find_spec("triton") is None:
        return found("triton", None, f"not installed: {lost}", fix)
    if not _DRIVER.exists():
        return found("triton", "installed; untried, for there is no NVIDIA driver here", lost, fix)
    try:
        done = _tried(_TRITON, _TRITON_S)
    except subprocess.TimeoutExpired:
        return found("triton", None, f"it does not import within {_TRITON_S} s: {lost}", fix)
    said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if done.returncode == 0 and said:
        return found("triton", said[-1], lost, fix)
    why = said[-1] if said else f"its import ended with {done.returncode}"
    return found("triton", None, f"{why}: {lost}", f"install the triton that torch asks for: {fix}")


def _tried(script: str, within_s: float) -> subprocess.CompletedProcess[str]:
    """With what we import, and a home that can be written to, as a candidate has it. Raises
    ``subprocess.TimeoutExpired``."""
    ours = os.pathsep.join(filter(None, sys.path))
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "tmp").mkdir()
        return subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False,
            timeout=within_s, env=child_environment(Path(home), PYTHONPATH=ours),
        )  # fmt: skip


OPTIONAL: tuple[Callable[[], Check], ...] = (
    _ninja,
    _triton,
)
"""Each looks for one thing."""
