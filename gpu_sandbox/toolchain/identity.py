"""Which compilers and headers a build would use, as text that keys can be made of."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.toolchain.environment import tool_environment

HEADERS = Path(__file__).parents[1] / "extension_build" / "headers"


@cache
def toolchain(*compilers: str) -> str:
    """Versions of the C++ compiler and of ``compilers``, and contents of our headers."""
    told = [_version([os.environ.get("CXX") or "c++", "--version"])]
    told += [_version([compiler, "--version"]) for compiler in compilers]
    digest = hashlib.sha256()
    for path in sorted(p for p in HEADERS.rglob("*") if p.is_file()):
        digest.update(path.read_bytes())
    return "\n".join([*told, digest.hexdigest()])


def _version(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return "none"
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=tool_environment()
    ).stdout


def torch_identity() -> str:
    """Which torch children will import: place, version, CUDA. Imports nothing of it."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        raise PrerequisiteMissing("torch is not installed: pip install torch")
    version = Path(spec.origin).parent / "version.py"
    return f"{version}\n{version.read_text()}\n{sys.version}"
