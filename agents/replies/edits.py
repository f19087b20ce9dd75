"""How far an implementation kept to its plan: which of its edits lie inside the anchors.

Lines are compared without comments, docstrings, blank lines and the renaming of ``Model`` to
``ModelNew``. Beside the anchored spans an edit may add imports and new definitions, and
drop what only the reference needs (imports, ``get_inputs``, constants).
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from agents.python_source import tree_of
from agents.replies.anchors import Span, anchored_spans, has_anchors, source_lines
from projections.search.instructions import Edits
from projections.search.tree import Tree

__all__ = ["Edits", "Incomparable", "edits_inside", "edits_of"]

_MODEL_NEW = re.compile(r"\bModelNew\b")
_IMPORT = re.compile(r"\s*(import\s|from\s+\S+\s+import\b)")
_HARNESS = ("get_inputs", "get_init_inputs", "get_input_sets", "get_hidden_input_sets")
_MOST_LINES = 5_000
_MOST_PAIRS = 200_000
"""Of equal lines, one of each source. Sources of 700 lines have about 5 000; what comparing
them takes grows with their product with the number of lines."""


class Incomparable(Exception):
    """Two sources so long, or so full of the same lines, that comparing them would take minutes."""


class _Text:
    """The lines of a source that count, their numbers from 1, and which are free."""

    def __init__(self, source: str) -> None:
        text = "\n".join(source_lines(_MODEL_NEW.sub("Model", source)))
        self.tree = tree_of(text)
        prose = _docstrings(self.tree)
        rows = enumerate(text.split("\n"), 1)
        kept = [(row, line) for row, line in rows if row not in prose and _counts(line)]
        self.numbers = [number for number, _ in kept]
        self.lines = [line for _, line in kept]


def _counts(line: str) -> bool:
    text = line.strip()
    return bool(text) and not has_anchors(text) and not text.startswith(("# ", "//", "/*"))


def _docstrings(tree: ast.Module | None) -> frozenset[int]:
    rows: set[int] = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                rows.update(_rows(first))
    return frozenset(rows)


def edits_inside(annotated: str, new_source: str) -> Edits:
    """Compare an implementation with the annotated source that it was to follow. Raises
    ``Incomparable``."""
    spans = anchored_spans(annotated)
    old, new = _Text(annotated), _Text(new_source)
    _require_comparable(old, new)
    droppable = _droppable(old)
    addable = _addable(new, old)
    inside = allowed = outside = 0
    matcher = difflib.SequenceMatcher(None, old.lines, new.lines, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        hit = False
        for i in range(i1, i2):
            if _within(old.numbers[i], spans):
                inside, hit = inside + 1, True
            elif _IMPORT.match(old.lines[i]) or old.numbers[i] in droppable:
                allowed += 1
            else:
                outside += 1
        hit = hit or (i1 == i2 and _touches(old, i1, spans))
        for j in range(j1, j2):
            if hit:
                inside += 1
            elif _IMPORT.match(new.lines[j]) or new.numbers[j] in addable:
                allowed += 1
            else:
                outside += 1
    return Edits(inside=inside, allowed=allowed, outside=outside)


def edits_of(tree: Tree, text: Callable[[str], str | None]) -> dict[int, Edits]:
    """The edits of every node that has a plan and a source; ``text`` is None where it can't be
    read. What is ``Incomparable`` is left out. A repair is compared with the plan that it
    inherits."""
    found: dict[int, Edits] = {}
    for node in tree.nodes.values():
        if node.annotated_sha256 is None or node.source_sha256 is None:
            continue
        annotated, source = text(node.annotated_sha256), text(node.source_sha256)
        if annotated is not None and source is not None:
            with suppress(Incomparable):
                found[node.id] = edits_inside(annotated, source)
    return found


def _require_comparable(old: _Text, new: _Text) -> None:
    ours, theirs = Counter(old.lines), Counter(new.lines)
    pairs = sum(count * theirs[line] for line, count in ours.items())
    if pairs > _MOST_PAIRS or max(len(old.lines), len(new.lines)) > _MOST_LINES:
        raise Incomparable


def _within(number: int, spans: tuple[Span, ...]) -> bool:
    return any(span.first <= number <= span.last for span in spans)


def _touches(old: _Text, index: int, spans: tuple[Span, ...]) -> bool:
    """Whether what is inserted before line ``index`` borders on a marked line."""
    around = old.numbers[max(index - 1, 0) : index + 1]
    return any(_within(number, spans) for number in around)


def _rows(node: ast.stmt) -> range:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _droppable(old: _Text) -> frozenset[int]:
    """Rows of the reference's harness: input makers and the constants they use."""
    rows: set[int] = set()
    for node in old.tree.body if old.tree else []:
        harness = isinstance(node, ast.FunctionDef) and node.name in _HARNESS
        constant = isinstance(node, ast.Assign) and _is_plain(node.value)
        if harness or constant:
            rows.update(_rows(node))
    return frozenset(rows)


def _is_plain(value: ast.expr) -> bool:
    return not any(isinstance(node, ast.Call) for node in ast.walk(value)) and not (
        isinstance(value, ast.Constant) and isinstance(value.value, str)
    )


def _addable(new: _Text, old: _Text) -> frozenset[int]:
    """Rows of definitions that ``new`` has and ``old`` has not."""
    rows: set[int] = set()
    known = _names(old)
    for node in new.tree.body if new.tree else []:
        names = _defined(node)
        if names and not any(("", name) in known for name in names):
            rows.update(_rows(node))
        elif isinstance(node, ast.ClassDef):
            for statement in _class_definitions(node):
                owned = _defined(statement)
                if owned and not any((node.name, name) in known for name in owned):
                    rows.update(_rows(statement))
    return frozenset(rows)


def _names(text: _Text) -> frozenset[tuple[str, str]]:
    """(class or "", name) of everything that a source defines."""
    found: set[tuple[str, str]] = set()
    for node in text.tree.body if text.tree else []:
        found.update(("", name) for name in _defined(node))
        if isinstance(node, ast.ClassDef):
            for statement in _class_definitions(node):
                found.update((node.name, name) for name in _defined(statement))
    return frozenset(found)


def _class_definitions(node: ast.ClassDef) -> list[ast.stmt]:
    """A class's own statements, and those of its ``__init__`` (where operators are kept)."""
    statements = list(node.body)
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            statements += method.body
    return statements


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    else:
        return []
    try:
        return [ast.unparse(target) for target in targets]
    except RecursionError:
        return []
