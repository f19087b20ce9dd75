"""Triton: Python functions that its JIT compiles."""

from __future__ import annotations

from agents.languages.language import Language, Words, shipped_example

__all__ = ["TRITON"]

TRITON = Language(
    name="triton",
    words=Words(
        kernels="custom Triton kernels",
        hardware="GPU",
        clock="wall-clock time on the GPU",
        libraries=(
            "cuBLAS and cuDNN through PyTorch's own operators, tl.dot on tensor cores, Triton's "
            "autotuner, and the kernels that PyTorch itself ships"
        ),
        embedding="the kernels are Python functions under @triton.jit in the same file",
        markers=(
            "In Python code, Triton kernels included, write `# <<<IMPROVE BEGIN>>>` and "
            "`# <<<IMPROVE END>>>`; inside a string that holds C++ source, if there is one, write "
            "`/* <<<IMPROVE BEGIN>>> */` and `/* <<<IMPROVE END>>> */`."
        ),
    ),
    example=shipped_example("triton"),
)
