"""Identity of compilers, headers and torch, as text for cache keys."""

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
    versions = [_version(name) for name in (os.environ.get("CXX") or "c++", *compilers)]
    digest = hashlib.sha256()
    for path in sorted(p for p in HEADERS.rglob("*") if p.is_file()):
        digest.update(path.read_bytes())
    return "\n".join([*versions, digest.hexdigest()])


def _version(compiler: str) -> str:
    if shutil.which(compiler) is None:
        return "none"
    command = [compiler, "--version"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=tool_environment()
    ).stdout


def torch_identity() -> str:
    """Place and version of the torch that children import. Imports nothing of it."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        raise PrerequisiteMissing("torch is not installed: pip install torch")
    version = Path(spec.origin).parent / "version.py"
    return f"{version}\n{version.read_text()}\n{sys.version}"
