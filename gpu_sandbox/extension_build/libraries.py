"""Libraries that the compile stage built, as files of this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gpu_sandbox.extension_build.load_inline import DIRECTORY_VARIABLE


def write_libraries(names: Sequence[str], fds: Sequence[int]) -> Path:
    """Copy them from descriptors, which are closed, to where ``load_inline`` looks from now on:
    a directory ``extensions`` in the current one."""
    root = Path.cwd() / "extensions"
    root.mkdir(exist_ok=True)
    os.environ[DIRECTORY_VARIABLE] = str(root)
    for name, fd in zip(names, fds, strict=True):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(fd, "rb") as built, open(path, "wb") as own:
            built.seek(0)
            shutil.copyfileobj(built, own, 1 << 20)
    return root
