"""Which compilers and headers a build would use, as text that keys can be made of."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from gpu_sandbox.prerequisites import cuda_home
from gpu_sandbox.process import tool_environment

__all__ = ["HEADERS", "toolchain"]

HEADERS = Path(__file__).parent / "headers"


@cache
def toolchain(cuda: bool) -> str:
    """Versions of the compilers and contents of our headers."""
    told = [_version([os.environ.get("CXX") or "c++", "--version"])]
    home = cuda_home()
    if cuda and home is not None:
        told.append(_version([str(home / "bin" / "nvcc"), "--version"]))
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
