"""What prompts need of a language."""

from __future__ import annotations

from importlib import resources
from typing import Literal

import msgspec

__all__ = ["Example", "Language", "Words", "shipped_example"]


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What fills the holes of the same names in templates.

    ``hardware`` is where its kernels run. ``embedding`` completes "an example, which shows how
    kernels are embedded in a PyTorch file: …". ``markers`` says how to mark a block as a comment.
    """

    kernels: str
    hardware: Literal["CPU", "GPU"]
    clock: str
    libraries: str
    embedding: str
    markers: str


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """An in-context pair: a task and the same task with custom kernels."""

    task: str
    solution: str


class Language(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    words: Words
    example: Example


def shipped_example(name: str) -> Example:
    """The pair in ``examples/``."""
    folder = resources.files("agents").joinpath("languages", "examples", name)
    task, solution = (
        folder.joinpath(file).read_text(encoding="utf-8") for file in ("task.py", "solution.py")
    )
    return Example(task=task, solution=solution)
