"""The languages of kernels, as prompts name and show them.

A language is registered here, and under the same name in ``gpu_sandbox/languages/``.
"""

from __future__ import annotations

from agents.languages.cpp import CPP
from agents.languages.cuda import CUDA
from agents.languages.language import Example, Language, Words
from agents.languages.triton import TRITON

__all__ = ["LANGUAGES", "Example", "Language", "Words"]

LANGUAGES: dict[str, Language] = {language.name: language for language in (CUDA, CPP, TRITON)}
"""By name, which is what ``prompts.language`` may be."""
