"""The languages of kernels, as the sandbox recognises and serves them. Pure.

A language is registered here, and under the same name in ``agents/languages/``.
"""

from __future__ import annotations

from gpu_sandbox.languages.compilers import COMPILERS
from gpu_sandbox.languages.cpp import CPP
from gpu_sandbox.languages.cuda import CUDA
from gpu_sandbox.languages.language import Language, Trial
from gpu_sandbox.languages.triton import TRITON

__all__ = ["COMPILERS", "LANGUAGES", "Language", "Trial", "languages_and_compilers", "languages_on"]

LANGUAGES: dict[str, Language] = {language.name: language for language in (CUDA, CPP, TRITON)}


def languages_on(kind: str) -> tuple[Language, ...]:
    """Those that run on a kind of device; ``auto`` means the first."""
    return tuple(language for language in LANGUAGES.values() if kind in language.devices)


def languages_and_compilers() -> tuple[Language, ...]:
    """All that a candidate's source may name, whether or not agents are asked for it."""
    return (*LANGUAGES.values(), *COMPILERS)
