"""Checks of ``engine doctor`` that several kinds of device share."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from gpu_sandbox.api.check import Check
from gpu_sandbox.toolchain.environment import tool_environment


def found(name: str, what: str | None, lost: str, fix: str) -> Check:
    """``what`` was found, if anything; else what is ``lost`` without."""
    if what is None:
        return Check(name=name, ok=False, needed=False, detail=lost, fix=fix)
    return Check(name=name, ok=True, needed=False, detail=what)


def compiles(name: str, command: list[str], source: str, fix: str) -> Check:
    if shutil.which(command[0]) is None:
        return Check(name=name, ok=False, needed=False, detail=f"no {command[0]}", fix=fix)
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "probe"
            path.write_text(source)
            words = [*command, "-c", str(path), "-o", f"{path}.o"]
            run = subprocess.run(
                words, capture_output=True, text=True, check=False, env=tool_environment()
            )
    except OSError as error:
        return Check(name=name, ok=False, needed=False, detail=str(error), fix="")
    if run.returncode:
        said = (run.stderr.splitlines() or ["it failed"])[0]
        return Check(name=name, ok=False, needed=False, detail=said, fix=fix)
    version = subprocess.run(
        [command[0], "--version"], capture_output=True, text=True, check=False,
        env=tool_environment(),
    ).stdout  # fmt: skip
    lines = [line for line in version.splitlines() if any(c.isdigit() for c in line)]
    detail = next((line for line in lines if "release" in line), (lines or ["works"])[0])
    return Check(name=name, ok=True, needed=False, detail=detail.strip())
