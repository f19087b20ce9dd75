"""CUDA C++ in a string of the Python file. ``extension_build/`` compiles it at its import."""

from __future__ import annotations

from gpu_sandbox.languages.language import Language

CUDA = Language(
    name="cuda",
    builders=("load_inline", "cpp_extension.load", "_compile_kernel"),
    cache_folders={"CUDA_CACHE_PATH": "cache/nv"},
)
