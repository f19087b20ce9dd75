"""What a machine must have before a candidate or a task can be judged on it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from gpu_sandbox.port import PrerequisiteMissing

__all__ = [
    "cuda_home",
    "hub_cache",
    "hub_environment",
    "hub_readable",
    "hub_variables",
    "require_compiler",
]


def require_compiler(*, cuda: bool) -> None:
    """A C++ compiler, Python's headers, ninja, and for CUDA a toolkit."""
    if shutil.which(os.environ.get("CXX") or "c++") is None:
        raise PrerequisiteMissing("no C++ compiler: install one (Debian, Ubuntu: apt install g++)")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise PrerequisiteMissing(
            f"no {header}: install Python's headers (apt install python{version}-dev)"
        )
    beside = Path(sys.executable).parent / "ninja"
    if shutil.which("ninja") is None and not beside.is_file():
        raise PrerequisiteMissing("no ninja: pip install ninja")
    if cuda and cuda_home() is None:
        raise PrerequisiteMissing("no CUDA toolkit: install it, or set CUDA_HOME to its place")


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


def hub_cache() -> Path:
    home = os.environ.get("HF_HOME")
    return Path(home) if home else Path.home() / ".cache" / "huggingface"


def hub_environment(task_source: str) -> dict[str, str]:
    """Variables for tasks that load pretrained models: the local hub cache, offline.

    Children have no network, so such a task needs its files there already.
    """
    if "transformers" not in task_source:
        return {}
    if importlib.util.find_spec("transformers") is None:
        raise PrerequisiteMissing("this task needs transformers: pip install transformers")
    cache = hub_cache()
    if not (cache / "hub").is_dir():
        raise PrerequisiteMissing(
            f"this task loads a pretrained model, and there is no hub cache in {cache}: "
            "download the model once (huggingface-cli download NAME), or set HF_HOME"
        )
    return hub_variables()


def hub_readable() -> tuple[str, ...]:
    """What confined children may read of the hub cache: the models, not the token beside."""
    models = hub_cache() / "hub"
    return (str(models),) if models.is_dir() else ()


def hub_variables() -> dict[str, str]:
    """For children: where the models are, and that there is no network."""
    return {
        "HF_HOME": str(hub_cache()),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
