"""Environment variables of compilers and of children: an allow-list, no API key on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpu_sandbox.languages import languages_and_compilers

_PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CC",
    "CXX",
)


def tool_environment() -> dict[str, str]:
    """What a compiler, or another tool that is only asked something, needs of ours."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def child_environment(home: Path, **extra: str) -> dict[str, str]:
    """The allow-list (no API key is on it), with a private home, temp and caches."""
    kept = tool_environment()
    search = [str(Path(sys.executable).parent), kept.get("PATH", os.defpath)]
    caches = {"HOME": home, "TMPDIR": home / "tmp", "XDG_CACHE_HOME": home / "cache"}
    settings: dict[str, str] = {}
    for compiler in languages_and_compilers():
        caches |= {variable: home / folder for variable, folder in compiler.cache_folders.items()}
        settings |= compiler.settings
    return {
        **kept,
        "PATH": os.pathsep.join(search),
        **{name: str(path) for name, path in caches.items()},
        **settings,
        "TORCH_NO_COMPILER_WRAPPER": "1",  # ccache, where it is: a miss costs another 0.7 s
        "NO_COLOR": "1",
        **extra,
    }
