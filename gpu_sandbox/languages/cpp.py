"""C++ in a string of the Python file. ``extension_build/`` compiles it at its import."""

from __future__ import annotations

from gpu_sandbox.languages.language import Language

CPP = Language(name="cpp", devices=("cuda", "cpu"), builders=("load_inline", "cpp_extension.load"))
