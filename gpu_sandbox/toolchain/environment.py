"""Environment variables of compilers and of children: an allow-list, no API key on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["child_environment", "tool_environment"]

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
    caches = {
        "HOME": home,
        "TMPDIR": home / "tmp",
        "XDG_CACHE_HOME": home / "cache",
        "TORCHINDUCTOR_CACHE_DIR": home / "cache" / "inductor",
        "TRITON_CACHE_DIR": home / "cache" / "triton",
        "CUDA_CACHE_PATH": home / "cache" / "nv",
    }
    return {
        **kept,
        "PATH": os.pathsep.join(search),
        **{name: str(path) for name, path in caches.items()},
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Of a header that is precompiled outside of its cache, once for each process.
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        "TRITON_CACHE_AUTOTUNING": "1",  # or each process of a candidate would tune it again
        "TORCH_NO_COMPILER_WRAPPER": "1",  # ccache, where it is: a miss costs another 0.7 s
        "NO_COLOR": "1",
        **extra,
    }
