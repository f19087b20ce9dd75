"""Runs torch's compiler commands for one extension, with what was built beforehand.

A source that binds plain functions is compiled with the slim binding, whose other half is linked
in; its header comes precompiled where there is one for its flags; headers of the functions that
it names are added to the slim ones; and a faster linker is tried first.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.toolchain.compiler_flags import header_name, relevant
from gpu_sandbox.toolchain.ninja_file import Recipe, Step

PREBUILT_VARIABLE = "GPU_SANDBOX_PREBUILT"
SANITIZE_VARIABLE = "GPU_SANDBOX_SANITIZE"
BINDING = "slim_binding"
"""Occurs in every compiler message about what the slim binding lacks."""

_EXTENSION = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]torch/extension\.h[>\"]", re.MULTILINE)
_BINDS = re.compile(r"\bPYBIND11_|\b(?:py|pybind11)\s*::")
_TORCH = re.compile(r"#\s*include\s*[<\"](?:torch|ATen)/")
_FUNCTION = re.compile(r"\b(?:at|torch)::(\w+?)(?:_out)?\s*\(")
_INDEXING = re.compile(r"\bindexing\b|\bSlice\s*\(|\.index(?:_put_)?\s*\(")
_TORCH_TENSOR = re.compile(r"\btorch::tensor\s*\(")
_TENSOR_LIST = re.compile(r"\b(?:cat|cat_out|index_put_?)\s*\(")
_DEFINED = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)\b", re.MULTILINE)
_BEYOND_SLIM = re.compile(
    r"\b(?:py|pybind11)\s*::\s*"
    r"(?!(?:arg|call_guard|gil_scoped_release|gil_scoped_acquire|module_?)\b)\w"
    r"|#\s*include\s*[<\"](?:pybind11/|torch/csrc/|torch/python\.h)"
    r"|\bPYBIND11_(?!MODULE\b)\w|\bTHP\w"
)
_DEBUGS = re.compile(r"(?:^|\s)(?:-G|--device-debug|-lineinfo|--generate-line-info)(?=\s|$)")
_THREADS = re.compile(r"(?:^|\s)(?:--threads|-t)(?=[\s=\d]|$)")
FAST_LINKERS = ("mold", "lld", "gold")
LINKER = "linker"
"""The file that names the one that was found to work, or none."""


class Driver:
    """Of one attempt. ``bound``: the slim binding served; ``output`` is the compilers'."""

    def __init__(self, extra_cflags: list[str], *, slim: bool, slim_binding: bool) -> None:
        self._slim = slim
        self._sanitizes = os.environ.get(SANITIZE_VARIABLE) == "address"
        place = os.environ.get(PREBUILT_VARIABLE)
        self._prebuilt = Path(place) if place else None
        binding = self._prebuilt / "binding.o" if self._prebuilt and slim_binding else None
        self._binding = binding if binding is not None and binding.is_file() else None
        self._flags = relevant(extra_cflags)
        self.bound = False
        self.output = ""

    def replacing(self, ninja: Callable[..., None]) -> Callable[..., None]:
        """Stands in for torch's ``_run_ninja_build``; ``ninja`` is for unusual files."""

        def run(build_directory: str, verbose: bool, error_prefix: str) -> None:
            directory = Path(build_directory)
            recipe = Recipe.read(directory)
            if recipe is None:
                ninja(build_directory, verbose, error_prefix)
                return
            output, good = self._build(recipe, directory)
            self.output = output
            if not good:
                raise RuntimeError(f"{error_prefix}: {output}")
            if verbose:
                print(output)

        return run

    def _build(self, recipe: Recipe, directory: Path) -> tuple[str, bool]:
        commands = [self._compile_command(step, directory) for step in recipe.compiles]
        with ThreadPoolExecutor(_jobs()) as pool:
            done = list(pool.map(lambda command: _run(command, directory), commands))
        failed = [
            f"FAILED: {c}\n{d.stdout}" for c, d in zip(commands, done, strict=True) if d.returncode
        ]
        if failed:
            return "\n".join(failed), False
        linked = self._link(recipe.link, directory)
        return "\n".join(d.stdout for d in (*done, linked)), linked.returncode == 0

    def _compile_command(self, step: Step, directory: Path) -> str:
        cuda = step.rule != "compile"
        flags = "cuda_cflags" if cuda else "cflags"
        given = _for_nvcc(step.variables[flags]) if cuda else step.variables[flags]
        if self._sanitizes and not cuda:
            given += " -fsanitize=address -fno-omit-frame-pointer -g -O1"
        if not self._slim:
            return step.command(**{flags: given})
        text = (directory / step.inputs[0]).read_text(errors="replace")
        added = ["-DSLIM_BINDS"] if cuda and _BINDS.search(text) else []
        if self._slim_binding_will_do(text) and (added or not cuda):
            self.bound = True
            added += ["-DSLIM_BINDING", *([] if cuda else self._precompiled(text))]
        added += [word for name in _named_headers(text) for word in ("-include", name)]
        # Before the -I that torch gives, so that a precompiled header is found first.
        return step.command(**{flags: " ".join([*added, given])})

    def _slim_binding_will_do(self, text: str) -> bool:
        return (
            self._binding is not None
            and self._flags is not None
            and _EXTENSION.search(text) is not None
            and _BEYOND_SLIM.search(text) is None
        )

    def _precompiled(self, text: str) -> list[str]:
        """Flags that have the header found precompiled, if it is there for these flags."""
        found = _EXTENSION.search(text)
        if self._binding is None or self._flags is None or found is None or self._sanitizes:
            return []
        header = self._binding.parent / "headers" / header_name(self._flags)
        if not header.is_dir() or _DEFINED.search(text, 0, found.start()):
            return []
        return ["-I", shlex.quote(str(header)), "-include", "torch/extension.h"]

    def _link(self, step: Step, directory: Path) -> Any:
        flags = step.variables["ldflags"] + (" -fsanitize=address" if self._sanitizes else "")
        if self.bound:
            flags = f"{shlex.quote(str(self._binding))} {flags}"
        linker = self._fast_linker()
        if linker and "-fuse-ld" not in flags:
            linked = _run(step.command(ldflags=f"-fuse-ld={linker} {flags}"), directory)
            if linked.returncode == 0:
                return linked
        return _run(step.command(ldflags=flags), directory)

    def _fast_linker(self) -> str | None:
        """The one that is known to work, else the first that there is."""
        if self._prebuilt is not None:
            with suppress(OSError):
                return (self._prebuilt / LINKER).read_text()
        return next((name for name in FAST_LINKERS if shutil.which(f"ld.{name}")), None)


def _for_nvcc(flags: str) -> str:
    """Flags that leave the machine code as it is: resources of each kernel, line information,
    and host and device halves at the same time."""
    lines = "" if _DEBUGS.search(flags) else " -lineinfo"
    both = "" if _THREADS.search(flags) else "--threads=2 "
    return f"{both}{flags} -Xptxas=-v{lines}"


def _named_headers(text: str) -> list[str]:
    """Headers of the tensor functions that a source calls by their full names."""
    if not _TORCH.search(text):
        return []
    operators = Path(torch.__path__[0]) / "include" / "ATen" / "ops"
    names = sorted(set(_FUNCTION.findall(text)))
    found = [f"ATen/ops/{name}.h" for name in names if (operators / f"{name}.h").is_file()]
    if _INDEXING.search(text):
        found.append("slim/indexing.h")
    if _TORCH_TENSOR.search(text):
        found.append("slim/tensor.h")
    if _TENSOR_LIST.search(text):
        found.append("ATen/core/IListRef.h")
    return found


def _run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}  # a sanitizer's
    return subprocess.run(
        command,
        shell=True,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _jobs() -> int:
    jobs = os.environ.get("MAX_JOBS", "")
    return int(jobs) if jobs.isdigit() and int(jobs) else os.cpu_count() or 1
