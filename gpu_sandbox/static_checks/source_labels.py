"""Labels of a speedup that a candidate's syntax tree shows. Pure.

Advice, no defence: a candidate can hide from it. Where reading can't tell, there is no label.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from events.outcomes import Label
from gpu_sandbox.languages import LANGUAGES
from gpu_sandbox.static_checks.bindings import without_main
from gpu_sandbox.static_checks.fallbacks import Fallbacks
from gpu_sandbox.static_checks.name_resolution import Names, key_of, names_builder
from gpu_sandbox.static_checks.visit_budget import TooMuch, Visits

SOURCE_LABELS: frozenset[Label] = frozenset({"inherits-reference", "torch-only", "fallback"})
_MOST_CHARS = 128 << 10
_KNOWN = (sys.stdlib_module_names | {"torch", "__future__"}) - {
    "subprocess", "importlib", "imp", "mmap", "runpy", "multiprocessing",
}  # fmt: skip
_UNREADABLE = frozenset({"exec", "eval", "compile", "__import__", ".system", ".popen"})


def source_labels(source: str, task_source: str, visits: Visits | None = None) -> dict[Label, str]:
    """Label → reason, one line each. Empty for a source that can't be read, or not within
    ``visits``."""
    visits = visits or Visits()
    if len(source) > _MOST_CHARS or len(task_source) > _MOST_CHARS:
        return {}
    try:
        tree, task = ast.parse(source), ast.parse(task_source)
        names, theirs = Names(tree, visits), Names(task, visits)
        references = _references(tree, names, theirs, visits)
        found: dict[Label, str | None] = {
            "inherits-reference": _inherits(names, references, visits),
            "torch-only": _torch_only(names, theirs),
            "fallback": Fallbacks(names, references, visits).first(list(without_main(tree.body))),
        }
    except (TooMuch, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {label: reason for label, reason in found.items() if reason}


def _at(node: ast.AST, reason: str) -> str:
    return f"candidate.py:{getattr(node, 'lineno', 0)}: {reason}"


# --- the reference


def _references(tree: ast.Module, names: Names, task: Names, visits: Visits) -> set[str]:
    """Names of the file that are the task's Model: imported, or copied with all it refers to."""
    imported = {
        name for name, path in names.imports.items()
        if path.endswith(".Model") and not path.startswith("torch.")
    }  # fmt: skip
    theirs, ours = task.definitions, names.definitions
    model = [_plain(each, "Model", visits) for each in theirs.get("Model", [])]
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} - {"ModelNew"}
    alike = {
        name for name in classes
        if len(ours[name]) == len(model) == 1 and model == [_plain(ours[name][0], name, visits)]
    }  # fmt: skip
    copied = alike and _same_around("Model", theirs, ours, visits)
    return imported | (alike if copied else set())


def _same_around(
    start: str,
    theirs: dict[str, list[ast.stmt]],
    ours: dict[str, list[ast.stmt]],
    visits: Visits,
) -> bool:
    """Whether all that the task's ``start`` refers to is defined alike in both files."""
    seen, waiting = {start}, [start]
    while waiting:
        defined = theirs[waiting.pop()]
        used = {node.id for node in visits.walk(*defined) if isinstance(node, ast.Name)}
        for name in sorted(used & theirs.keys() - seen):
            one, other = theirs[name], ours.get(name, [])
            if len(one) != len(other):
                return False
            if [_plain(d, name, visits) for d in one] != [_plain(d, name, visits) for d in other]:
                return False
            seen.add(name)
            waiting.append(name)
    return True


def _plain(definition: ast.stmt, name: str, visits: Visits) -> list[object]:
    """What it says, in order, without its name, annotations and docstrings."""
    parts: list[object] = []
    waiting: list[object] = [definition]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.AST):
            visits.spend(1)
            said = [*_said(each, name)]
            parts.append((type(each).__name__, len(said)))
            waiting += said
        elif isinstance(each, list):
            parts.append(len(each))
            waiting += each
        else:
            parts.append(repr(each))
    return parts


def _said(node: ast.AST, name: str) -> Iterator[object]:
    for field, value in ast.iter_fields(node):
        match node, field:
            case (ast.arg(), "annotation") | (ast.FunctionDef(), "returns"):
                pass
            case ast.FunctionDef() | ast.ClassDef(), "body":
                yield _undocumented(value)
            case (ast.Name(), "id") | (ast.ClassDef(), "name") if value == name:
                yield ""
            case _:
                yield value


def _undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest] if rest:
            return rest
        case _:
            return body


def _inherits(names: Names, references: set[str], visits: Visits) -> str | None:
    """``ModelNew`` derives from the task's Model, or uses it. A copy under another name counts
    only if it is derived from."""
    reached = _reached(names, "ModelNew", visits)
    for node in reached:
        if isinstance(node, ast.ClassDef) and (_bases(node) & references):
            return _at(node, f"{node.name} derives from the task's Model")
    called = {name for name in references if name == "Model" or name in names.imports}
    for node in reached:
        for use in visits.walk(node) if _name(node) not in called else ():
            if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load) and use.id in called:
                return _at(use, "it uses the task's Model")
    return None


def _bases(node: ast.ClassDef) -> set[str]:
    return {key_of(base).lstrip(".") for base in node.bases}


def _name(node: ast.stmt) -> str:
    return str(getattr(node, "name", ""))


def _reached(names: Names, start: str, visits: Visits) -> list[ast.stmt]:
    """The definitions that ``start`` needs, itself among them, each once."""
    found: dict[int, ast.stmt] = {}
    seen, waiting = {start}, [start]
    while waiting:
        for node in names.definitions.get(waiting.pop(), []):
            if id(node) in found:
                continue
            found[id(node)] = node
            used = {n.id for n in visits.walk(node) if isinstance(n, ast.Name)} - seen
            seen |= used
            waiting += sorted(used)
    return list(found.values())


# --- no kernel of its own


def _torch_only(names: Names, task: Names) -> str | None:
    theirs = {path.split(".")[0] for path in task.imports.values()}
    shown = {  # their kernels show by their decorators
        package for language in LANGUAGES.values() if language.has_kernel_decorators
        for package in language.packages
    }  # fmt: skip
    if {path.split(".")[0] for path in names.imports.values()} - _KNOWN - shown - theirs:
        return None
    expressions = [node for node in names.nodes if isinstance(node, ast.expr)]
    if any(path.endswith(".*") for path in names.imports.values()):
        return None
    if names.kernels or names.launching or _UNREADABLE & {key_of(node) for node in expressions}:
        return None
    # Wherever a builder is named: it may be called by another name, or out of a dict.
    if any(names_builder(names, node) or names.is_kernel(node) for node in expressions):
        return None
    compiled = any(names.path(node) == "torch.compile" for node in expressions)
    reason = "no kernel of its own: it arranges torch's operations"
    return f"{reason}, compiled by torch.compile" if compiled else reason
