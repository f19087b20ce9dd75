"""NVIDIA's compute-sanitizer, with the build that was judged."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_sandbox.backends.protocol import ToolCommand
from gpu_sandbox.backends.sanitizer_reports import memory_findings
from gpu_sandbox.toolchain.prerequisites import cuda_home


class ComputeSanitizer:
    """One of its tools: memcheck, or racecheck."""

    def __init__(self, tool: str) -> None:
        self.name = self.title = tool

    def command(self) -> ToolCommand | None:
        found = compute_sanitizer()
        if found is None:
            return None
        words = [found, "--tool", self.name, "--show-backtrace", "no", "--strip-paths", "no"]
        words += ["--print-limit", "100", "--target-processes", "all"]
        # Torch's allocator hands out pieces of large blocks, whose ends nobody would see.
        alone = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_LAUNCH_BLOCKING": "1"}
        return ToolCommand(words, alone, (str(Path(found).resolve().parent),))

    def findings(self, text: str, lines: Mapping[str, Sequence[int]]) -> list[str]:
        return memory_findings(text, lines)


def compute_sanitizer() -> str | None:
    """On the path, or in the CUDA toolkit."""
    home = cuda_home()
    found = shutil.which("compute-sanitizer")
    return found or (shutil.which(home / "bin" / "compute-sanitizer") if home else None)
