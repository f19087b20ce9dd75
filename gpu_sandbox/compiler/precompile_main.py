"""The precompile child: compiles our own binding and headers. Trusted; sees no candidate.

Torch's own driver gives the flags, so that the results fit what it compiles later.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from torch.utils import cpp_extension

from gpu_sandbox.extension_build.ninja_edits import FAST_LINKERS, LINKER
from gpu_sandbox.toolchain.identity import HEADERS


class _Captured(Exception):
    """Carries the flags out of torch's driver, in place of a build."""


def main(*, directory: str, flags: list[str] | None, cores: list[int]) -> None:
    """Make ``binding.o`` and ``linker``, or with ``flags`` the precompiled header for them."""
    os.sched_setaffinity(0, cores)
    into = Path(directory)
    if flags is None:
        _binding(into)
    else:
        _header(into, flags)


def _binding(into: Path) -> None:
    """Against the real headers: ours come last, for ``slim/`` alone."""
    source = HEADERS / "slim" / "binding.cpp"
    own = f"-O2 -fvisibility=hidden -idirafter {HEADERS}"
    flags = _cflags([])
    _compile(f"{flags} {own} -c {source} -o {into / 'binding.o'}")
    compiler = flags.split()[0]
    (into / LINKER).write_text(_fast_linker(compiler, into / "binding.o") or "")


def _fast_linker(compiler: str, binding: Path) -> str | None:
    """One that works with this compiler: some are installed, and don't find its libraries."""
    for name in filter(lambda name: shutil.which(f"ld.{name}"), FAST_LINKERS):
        command = f"{compiler} -shared -fuse-ld={name} {binding} -o /dev/null"
        tried = subprocess.run(command, shell=True, check=False, capture_output=True)
        if tried.returncode == 0:
            return name
    return None


def _header(into: Path, flags: list[str]) -> None:
    (into / "torch").mkdir()
    stub = into / "torch" / "extension.h"
    stub.write_text("#include_next <torch/extension.h>\n")
    source = into / "all.h"
    source.write_text("#include <torch/extension.h>\n")
    _compile(f"{_cflags(flags, HEADERS)} -DSLIM_BINDING -x c++-header {source} -o {stub}.gch")


def _cflags(extra: list[str], *first: Path) -> str:
    """The compiler and its flags for any extension, but for the name of one."""

    def capture(build_directory: str, *_: Any, **__: Any) -> None:
        raise _Captured((Path(build_directory) / "build.ninja").read_text())

    driver: Any = cpp_extension
    driver._run_ninja_build = capture
    with tempfile.TemporaryDirectory() as scratch:
        try:
            driver.load_inline(
                "prebuilt",
                "",
                extra_cflags=extra,
                extra_include_paths=list(map(str, first)),
                build_directory=scratch,
            )
        except _Captured as captured:
            variables = dict(re.findall(r"^(\w+) = (.*)$", captured.args[0], re.MULTILINE))
    flags = re.sub(r"-DTORCH_EXTENSION_NAME=\S+ ", "", variables["cflags"])
    return f"{variables['cxx']} {flags}"


def _compile(command: str) -> None:
    subprocess.run(command, shell=True, check=True, stdin=subprocess.DEVNULL)
