"""C++ in a string of the Python file, for ``load_inline``."""

from __future__ import annotations

from agents.languages.language import Language, Words, shipped_example

__all__ = ["CPP"]

CPP = Language(
    name="cpp",
    words=Words(
        kernels="custom C++ kernels",
        hardware="CPU",
        clock="wall-clock time on the CPU",
        libraries=(
            "oneDNN, the BLAS that PyTorch is linked with, at::parallel_for and OpenMP, and the "
            "vectorised kernels that PyTorch itself ships"
        ),
        embedding=(
            "the C++ source is a string in the Python file, and "
            "torch.utils.cpp_extension.load_inline compiles it"
        ),
        markers=(
            "In Python code write `# <<<IMPROVE BEGIN>>>` and `# <<<IMPROVE END>>>`; inside a "
            "string that holds C++ source write `/* <<<IMPROVE BEGIN>>> */` and "
            "`/* <<<IMPROVE END>>> */`."
        ),
    ),
    example=shipped_example("cpp"),
)
