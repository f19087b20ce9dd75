"""AddressSanitizer, for C++ extensions on the CPU, which are built anew for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache

from gpu_sandbox.backends.protocol import ToolCommand
from gpu_sandbox.backends.sanitizer_reports import address_findings
from gpu_sandbox.toolchain.environment import tool_environment

_OPTIONS = (
    "detect_leaks=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:detect_container_overflow=0"
    ":allocator_may_return_null=1:malloc_context_size=8:quarantine_size_mb=32:exitcode=97"
)


class AddressSanitizer:
    name = "address"
    title = "AddressSanitizer"

    def command(self) -> ToolCommand | None:
        preload = address_runtime(os.environ.get("CXX") or "c++")
        if preload is None:
            return None
        variables = {"ASAN_OPTIONS": _OPTIONS, "GPU_SANDBOX_SANITIZE": "address"}
        return ToolCommand([], {"LD_PRELOAD": preload, **variables}, anew=True)

    def findings(self, text: str, lines: Mapping[str, Sequence[int]]) -> list[str]:
        return address_findings(text, lines)


@cache
def address_runtime(compiler: str) -> str | None:
    """Libraries to load first: ASan's, and that of C++ whose functions it wraps; else None."""
    paths = []
    for name in ("libasan.so", "libstdc++.so.6"):
        try:
            done = subprocess.run(
                [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False,
                env=tool_environment(),
            )  # fmt: skip
        except OSError:
            return None
        if not os.path.isabs(done.stdout.strip()):
            return None
        paths.append(os.path.realpath(done.stdout.strip()))
    return " ".join(paths)
