"""What a machine must have before a candidate or a task can be judged on it."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from gpu_sandbox.api.evaluator import PrerequisiteMissing


def require_compiler() -> None:
    """A C++ compiler, Python's headers and ninja."""
    require_cpp()
    if ninja() is None:
        raise PrerequisiteMissing("no ninja: pip install ninja")


def require_cpp() -> None:
    """A C++ compiler, and Python's headers."""
    if shutil.which(os.environ.get("CXX") or "c++") is None:
        raise PrerequisiteMissing("no C++ compiler: install one (Debian, Ubuntu: apt install g++)")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise PrerequisiteMissing(
            f"no {header}: install Python's headers (apt install python{version}-dev)"
        )


def ninja() -> str | None:
    """On the path, or beside the interpreter."""
    beside = Path(sys.executable).parent / "ninja"
    return shutil.which("ninja") or (str(beside) if beside.is_file() else None)


def cuda_home() -> Path | None:
    """The toolkit's root, by variable, by nvcc on the path, or in its usual place."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            return Path(os.environ[name])
    usual = Path("/usr/local/cuda")
    if (usual / "bin" / "nvcc").exists():
        return usual
    nvcc = shutil.which("nvcc")
    return Path(nvcc).resolve().parent.parent if nvcc else None
