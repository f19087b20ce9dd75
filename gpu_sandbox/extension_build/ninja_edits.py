"""Edits of the ``build.ninja`` that torch writes for one extension, which ninja then runs.

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
from contextlib import suppress
from pathlib import Path

import torch

from gpu_sandbox.toolchain.compiler_flags import header_name, relevant

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
_VARIABLE = re.compile(r"^(\w+) = (.*)$", re.MULTILINE)
_BUILD = re.compile(r"build (?:\$.|[^\s:$])+: (.+)")
_DEPENDENCIES = re.compile(r"-MM?D -MF \$out\.d |^  (?:depfile|deps) = .*\n", re.MULTILINE)
_PROGRESS = re.compile(r"^(?:\[\d+/\d+\] |ninja: build stopped).*\n?", re.MULTILINE)
_LINK_FAILED = re.compile(r"^FAILED: (?:\[code=\d+\] )?\S+\.so\b", re.MULTILINE)
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

    def run(self, build_directory: str, verbose: bool, error_prefix: str) -> None:
        """Stands in for torch's ``_run_ninja_build``."""
        file = Path(build_directory) / "build.ninja"
        original = _DEPENDENCIES.sub("", file.read_text())
        linker = None if "-fuse-ld" in original else self._fast_linker()
        file.write_text(self._edited(original, linker))
        done = _ninja(file.parent)
        self.output = done.stdout
        if done.returncode and linker and _LINK_FAILED.search(done.stdout):
            file.write_text(self._edited(original, None))
            done = _ninja(file.parent)
            self.output = self.output.partition("FAILED: ")[0] + done.stdout
        if done.returncode:
            raise RuntimeError(f"{error_prefix}: {self.output}")
        if verbose:
            print(self.output)

    def _edited(self, text: str, linker: str | None) -> str:
        """With variables of their own for each command."""
        variables = dict(_VARIABLE.findall(text))
        lines = []
        for line in text.splitlines():
            lines.append(line)
            rule, _, inputs = (found[1] if (found := _BUILD.match(line)) else "").partition(" ")
            match rule:
                case "compile":
                    flags = self._added(inputs, cuda=False)
                    checks = " -fsanitize=address -fno-omit-frame-pointer -g -O1"
                    lines.append(f"  cflags = {flags} $cflags{checks if self._sanitizes else ''}")
                case "cuda_compile":
                    given = _for_nvcc(variables["cuda_cflags"])
                    lines.append(f"  cuda_cflags = {self._added(inputs, cuda=True)} {given}")
                case "link":
                    binding = shlex.quote(str(self._binding)) if self.bound else ""
                    check = "-fsanitize=address" if self._sanitizes else ""
                    fast = f"-fuse-ld={linker}" if linker else ""
                    lines.append(f"  ldflags = {fast} {_escaped(binding)} $ldflags {check}")
                case _:
                    pass
        return "\n".join(lines) + "\n"

    def _added(self, inputs: str, *, cuda: bool) -> str:
        """Flags before those of torch, so that a precompiled header is found first."""
        if not self._slim:
            return ""
        text = Path(re.sub(r"\$(.)", r"\1", inputs)).read_text(errors="replace")
        added = ["-DSLIM_BINDS"] if cuda and _BINDS.search(text) else []
        if self._slim_binding_will_do(text) and (added or not cuda):
            self.bound = True
            added += ["-DSLIM_BINDING", *([] if cuda else self._precompiled(text))]
        added += [word for name in _named_headers(text) for word in ("-include", name)]
        return _escaped(" ".join(added))

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


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _ninja(directory: Path) -> subprocess.CompletedProcess[str]:
    """Its output has errors and warnings of commands; a failed command is on a line with it."""
    jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count() or 1)
    done = subprocess.run(
        ["ninja", "-v", "-k", "0", "-j", jobs],
        cwd=directory,
        env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"},  # a sanitizer's
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    output = re.sub(r"^(FAILED: .*)\n", r"\1 ", _PROGRESS.sub("", done.stdout), flags=re.MULTILINE)
    return subprocess.CompletedProcess(done.args, done.returncode, output)
