"""Several input sets of one task: a candidate has to be right on each of them.

A task may declare ``get_input_sets()``, a function whose one return is a dict that is written
out: names, and for each the inputs or a function that draws them. ``get_hidden_input_sets()`` is
the same of sets that no prompt shows. Each set is judged as a task of its own.
"""

from __future__ import annotations

import ast

import msgspec

_SHOWN, _HIDDEN = "get_input_sets", "get_hidden_input_sets"
_DRAWING = '''

def get_inputs():
    """Of the input set {name!r}."""
    inputs = {function}()[{name!r}]
    return inputs() if callable(inputs) else inputs
'''


class BadInputSets(ValueError):
    """The message says, in one line, what is wrong with a file's input sets."""


class InputSet(msgspec.Struct, frozen=True, kw_only=True):
    """``task_source`` draws this set alone."""

    name: str
    hidden: bool
    task_source: str


def input_sets(task_source: str) -> list[InputSet]:
    """In the order of the file, hidden ones last; none of one that is no Python. Raises
    ``BadInputSets``."""
    found: list[InputSet] = []
    for function in _declared(task_source):
        for name in _names(function):
            if name in {each.name for each in found}:
                raise BadInputSets(f"{function.name}: there are two input sets {name!r}")
            drawing = _DRAWING.format(name=name, function=function.name)
            hidden = function.name == _HIDDEN
            found.append(InputSet(name=name, hidden=hidden, task_source=task_source + drawing))
    return found


def shown_source(task_source: str) -> str:
    """The file without its hidden input sets, for prompts."""
    lines = task_source.splitlines(keepends=True)
    for function in reversed(_declared(task_source)):
        if function.name == _HIDDEN:
            first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
            del lines[first - 1 : function.end_lineno]
    return "".join(lines)


def _declared(task_source: str) -> list[ast.FunctionDef]:
    """Shown ones first."""
    if _SHOWN not in task_source and _HIDDEN not in task_source:
        return []
    try:
        body = ast.parse(task_source).body
    except (SyntaxError, ValueError):  # others say what is wrong with it
        return []
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    return [f for name in (_SHOWN, _HIDDEN) for f in functions if f.name == name]


def _names(function: ast.FunctionDef) -> list[str]:
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    value = returns[0].value if len(returns) == 1 else None
    if not isinstance(value, ast.Dict) or not value.keys:
        raise BadInputSets(
            f"{function.name}() has to end in one return of a dict that is written out,"
            " {'name': lambda: [inputs], ...}"
        )
    names = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
    for name in names:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise BadInputSets(f"{function.name}(): every input set's name has to be a text")
    return [name for name in names if isinstance(name, str)]
