"""CUDA C++ in a string of the Python file, for ``load_inline``."""

from __future__ import annotations

from agents.languages.language import Language, Words, shipped_example

__all__ = ["CUDA"]

CUDA = Language(
    name="cuda",
    words=Words(
        kernels="custom CUDA kernels",
        hardware="GPU",
        clock="wall-clock time on the GPU",
        libraries=(
            "cuBLAS, cuDNN, CUTLASS, CUB, tensor-core operations, and the CUDA kernels that "
            "PyTorch itself ships"
        ),
        embedding=(
            "the CUDA source is a string in the Python file, and "
            "torch.utils.cpp_extension.load_inline compiles it"
        ),
        markers=(
            "In Python code write `# <<<IMPROVE BEGIN>>>` and `# <<<IMPROVE END>>>`; inside a "
            "string that holds CUDA or C++ source write `/* <<<IMPROVE BEGIN>>> */` and "
            "`/* <<<IMPROVE END>>> */`."
        ),
    ),
    example=shipped_example("cuda"),
)
