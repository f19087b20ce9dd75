"""Triton: Python functions that its JIT compiles when they are called."""

from __future__ import annotations

import json
from pathlib import PurePath

from gpu_sandbox.languages.language import Language, Trial

_INSTALL = "pip install triton (Triton candidates only)"
_TRIAL = """
import triton
from triton.runtime import driver
print(triton.__version__, "on", driver.active.get_current_target())
"""


def _relocate(text: str, folder: PurePath) -> str:
    """A list of a kernel's files: absolute paths of the home that it was made in."""
    listed = json.loads(text)
    listed["child_paths"] = {name: str(folder / name) for name in listed["child_paths"]}
    return json.dumps(listed)


TRITON = Language(
    name="triton",
    packages=("triton",),
    has_kernel_decorators=True,
    compiles_when_called=True,
    cache_folders={"TRITON_CACHE_DIR": "cache/triton"},
    # Else each process of a candidate would tune its kernels again.
    settings={"TRITON_CACHE_AUTOTUNING": "1"},
    # It hashes all of triton, 400 MB, in 0.3 s. Where it is depends on triton's version.
    cache_keys=("triton.runtime.cache.triton_key", "triton.compiler.compiler.triton_key"),
    relocate={"__grp__*.json": _relocate},
    trial=Trial(
        script=_TRIAL,
        lost="Triton candidates can't run",
        install=_INSTALL,
        repair=f"install the triton that torch asks for: {_INSTALL}",
    ),
)
