"""What an evaluation can do without, and what is lost then. None of it is ever a failure."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from gpu_sandbox.api.check import Check
from gpu_sandbox.backends.machine_checks import found
from gpu_sandbox.languages import Language, Trial, languages_and_compilers
from gpu_sandbox.toolchain.environment import child_environment
from gpu_sandbox.toolchain.prerequisites import ninja

_DRIVER = Path("/dev/nvidiactl")
_TRIAL_S = 120


def _ninja() -> Check:
    lost = "no extension is built, so only candidates without load_inline can be judged"
    return found("ninja", ninja(), lost, "pip install ninja")


def _language(language: Language, trial: Trial) -> Check:
    """Imported, and asked for its device, in a process of its own: it takes a second."""
    name, lost, fix = language.name, trial.lost, trial.install
    if any(find_spec(package) is None for package in language.packages):
        return found(name, None, f"not installed: {lost}", fix)
    if not _DRIVER.exists():
        return found(name, "installed; untried, for there is no NVIDIA driver here", lost, fix)
    try:
        done = _tried(trial.script, _TRIAL_S)
    except subprocess.TimeoutExpired:
        return found(name, None, f"it does not import within {_TRIAL_S} s: {lost}", fix)
    said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if done.returncode == 0 and said:
        return found(name, said[-1], lost, fix)
    why = said[-1] if said else f"its import ended with {done.returncode}"
    return found(name, None, f"{why}: {lost}", trial.repair)


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
    *(
        partial(_language, language, language.trial)
        for language in languages_and_compilers() if language.trial is not None
    ),
)  # fmt: skip
"""Each looks for one thing."""
