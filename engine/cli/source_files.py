"""The user's own files, tasks and kernels: read, and checked as far as that goes without running
them. What is wrong with one is said before anything is paid or written."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

from engine.cli.exits import Failure
from gpu_sandbox.evaluate.input_sets import BadInputSets, input_sets

__all__ = ["read_candidate", "read_kernel", "read_task"]

_INTERFACE = ("Model", "get_inputs", "get_init_inputs")
_SETS = ("get_input_sets", "get_hidden_input_sets")


def read_task(task: Path) -> str:
    """The task's source, checked as far as that goes without running it.

    Raises ``Failure``: no such file, a syntax error, no ``Model``, input sets that aren't written
    out.
    """
    source = read_candidate(task)
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        where = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise Failure(f"{task}{where}: not a Python file: {what}") from error
    named = {
        name
        for node in ast.walk(module)
        for name in (getattr(node, "name", None), getattr(node, "id", None))
        if name
    }
    try:
        sets = input_sets(source)
    except BadInputSets as bad:
        raise Failure(f"{task}: {bad}") from bad
    if not sets and (misplaced := [name for name in _SETS if name in named]):
        raise Failure(f"{task}: {misplaced[0]} has to be a function of the file itself")
    missing = [name for name in _INTERFACE if name not in named]
    if sets and "get_inputs" in missing:
        missing.remove("get_inputs")
    if missing:
        raise Failure(
            f"{task}: no {', no '.join(missing)}; a task in KernelBench form defines"
            " class Model, get_inputs() and get_init_inputs()"
        )
    return source


def read_candidate(path: Path) -> str:
    """A Python file as it is: what is wrong with its code is for others to say. A byte-order mark
    is no part of it. Raises ``Failure``: no such file, not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: not a UTF-8 text file") from error


def read_kernel(path: Path) -> str:
    """The source of a kernel to start from, of which the static guard finds nothing to refuse.

    Raises ``Failure``: no such file, not UTF-8, too large, a syntax error, no ``ModelNew``.
    """
    from agents.replies.anchors import strip_anchors
    from gpu_sandbox.static_checks.precheck import MAX_SOURCE_BYTES, inspect_candidate

    try:
        with path.open("rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)  # so much is enough to be refused
        if len(data) > MAX_SOURCE_BYTES:
            raise Failure(
                f"{path}: larger than {MAX_SOURCE_BYTES >> 10} KiB, the most for a kernel"
            )
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: not a UTF-8 text file") from error
    # As a reply is read: line ends and anchors mean nothing, and would be in a planner's way.
    source = strip_anchors(text.replace("\r\n", "\n").replace("\r", "\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape is for the sandbox to judge
        refused = inspect_candidate(source).outcome
    if refused is not None:
        raise Failure(
            f"{path}: {refused.reason.replace('candidate.py:', 'line ')}; a kernel to start from"
            " is a Python file with a class ModelNew, as engine eval takes it"
        )
    return source
