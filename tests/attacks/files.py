"""The corpus on disk: tasks, attacks with their world written in, honest candidates."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

__all__ = ["HERE", "attack_source", "docstring", "honest_source", "task_source", "twin_source"]

HERE = Path(__file__).parent
_INCLUDE = re.compile(r"^# @include (\w+)$", re.MULTILINE)
_WORLD = '"@WORLD@"'


def task_source(name: str) -> str:
    return (HERE / "tasks" / f"{name}.py").read_text()


def twin_source(task: str) -> str:
    """The reference under the candidate's name: as fast as doing nothing clever is."""
    return task_source(task).replace("class Model(", "class ModelNew(")


def honest_source(name: str) -> str:
    return (HERE / "honest" / f"{name}.py").read_text()


def attack_source(family: str, name: str, world: dict[str, Any]) -> str:
    """``"@WORLD@"`` becomes what the attack may know of its surroundings, a literal dict;
    ``# @include NAME`` becomes ``corpus/include/NAME.py``."""
    source = (HERE / "corpus" / family / f"{name}.py").read_text()
    source = _INCLUDE.sub(lambda m: (HERE / "corpus/include" / f"{m[1]}.py").read_text(), source)
    return source.replace(_WORLD, repr(world))


def docstring(family: str, name: str) -> str:
    """Its first paragraph, on one line."""
    tree = ast.parse((HERE / "corpus" / family / f"{name}.py").read_text())
    told = ast.get_docstring(tree) or ""
    return " ".join(told.split("\n\n")[0].split())
