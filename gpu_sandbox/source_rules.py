"""What a candidate's source shows it to be: labels for the reader of its speedup. Pure.

By its syntax tree, so no comment or docstring has a part in it. Advice, never a wall: who
wants to hide from it can, and what is missed costs a label and nothing else. Where reading
can't tell, nothing is said.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from events.outcomes import Label
from gpu_sandbox.source_names import Names, key_of, stands_alone

__all__ = ["source_labels"]

_MOST_CHARS = 128 << 10
_MOST_NAMED, _MOST_CHOICES = 60, 50
_KNOWN = (sys.stdlib_module_names | {"torch", "triton", "__future__"}) - {
    "subprocess", "importlib", "imp", "mmap", "runpy", "multiprocessing",
}  # fmt: skip
_UNREADABLE = frozenset({"exec", "eval", "compile", "__import__", ".system", ".popen"})


def source_labels(source: str, task_source: str) -> dict[Label, str]:
    """Label → reason, one line each. Nothing for what can't be read."""
    if len(source) > _MOST_CHARS or len(task_source) > _MOST_CHARS:
        return {}
    try:
        tree, task = ast.parse(source), ast.parse(task_source)
        names = Names(tree)
        references = _references(tree, names, task)
        found: dict[Label, str | None] = {
            "inherits-reference": _inherits(names, references),
            "torch-only": _torch_only(names, task),
            "fallback": next(_Fallbacks(names, references).within(stands_alone(tree)), None),
        }
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {label: reason for label, reason in found.items() if reason}


def _at(node: ast.AST, told: str) -> str:
    return f"candidate.py:{getattr(node, 'lineno', 0)}: {told}"


# --- the reference


def _references(tree: ast.Module, names: Names, task: ast.Module) -> set[str]:
    """Names of the file that are the task's Model: imported, or copied with all it refers to."""
    imported = {
        name for name, path in names.imports.items()
        if path.endswith(".Model") and not path.startswith("torch.")
    }  # fmt: skip
    theirs, ours = Names(task).definitions, names.definitions
    model = [_plain(each, "Model") for each in theirs.get("Model", [])]
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} - {"ModelNew"}
    alike = {name for name in classes if model == [_plain(each, name) for each in ours[name]]}
    return imported | {name for name in alike if _same("Model", theirs, name, ours, set())}


def _same(
    name: str,
    theirs: dict[str, list[ast.stmt]],
    copy: str,
    ours: dict[str, list[ast.stmt]],
    seen: set[str],
) -> bool:
    """Whether both definitions say the same, and those of the file that they refer to."""
    if name in seen:
        return True
    seen.add(name)
    one, other = theirs.get(name, []), ours.get(copy, [])
    if not one or [_plain(d, name) for d in one] != [_plain(d, copy) for d in other]:
        return False
    used = {node.id for d in one for node in ast.walk(d) if isinstance(node, ast.Name)}
    return all(_same(each, theirs, each, ours, seen) for each in used & theirs.keys() - {name})


def _plain(definition: ast.stmt, name: str) -> str:
    """Its tree as text, without its name, annotations and docstrings."""
    copied = ast.parse(ast.unparse(definition))
    for node in ast.walk(copied):
        match node:
            case ast.arg():
                node.annotation = None
            case ast.FunctionDef():
                node.returns = None
                node.body = _undocumented(node.body)
            case ast.ClassDef():
                node.body = _undocumented(node.body)
                node.name = "" if node.name == name else node.name
            case ast.Name(id=id_) if id_ == name:
                node.id = ""
            case _:
                pass
    return ast.dump(copied)


def _undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest] if rest:
            return rest
        case _:
            return body


def _inherits(names: Names, references: set[str]) -> str | None:
    """A copy under another name has to be derived from: who only holds one may have had no
    other way to write it."""
    for node in _reached(names, "ModelNew"):
        if isinstance(node, ast.ClassDef) and (_bases(node) & references):
            return _at(node, f"{node.name} derives from the task's Model")
    called = {name for name in references if name == "Model" or name in names.imports}
    for node in _reached(names, "ModelNew"):
        for use in ast.walk(node) if _name(node) not in called else ():
            if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load) and use.id in called:
                return _at(use, "it uses the task's Model")
    return None


def _bases(node: ast.ClassDef) -> set[str]:
    return {key_of(base).lstrip(".") for base in node.bases}


def _name(node: ast.stmt) -> str:
    return str(getattr(node, "name", ""))


def _reached(names: Names, start: str) -> list[ast.stmt]:
    """The definitions that ``start`` needs, itself among them."""
    found: list[ast.stmt] = []
    seen, waiting = {start}, [start]
    while waiting:
        for node in names.definitions.get(waiting.pop(), []):
            found.append(node)
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - seen
            seen |= used
            waiting += sorted(used)
    return found


# --- no kernel of its own


def _torch_only(names: Names, task: ast.Module) -> str | None:
    theirs = {path.split(".")[0] for path in Names(task).imports.values()}
    if {path.split(".")[0] for path in names.imports.values()} - _KNOWN - theirs:
        return None
    uses = {key_of(node) for node in names.nodes if isinstance(node, ast.expr)}
    if names.kernels or names.launching or names.builds(names.nodes) or uses & _UNREADABLE:
        return None
    if any(names.is_kernel(node) for node in names.nodes if isinstance(node, ast.expr)):
        return None
    paths = {names.path(node) for node in names.nodes if isinstance(node, ast.expr)}
    compiled = ", compiled by torch.compile" if "torch.compile" in paths else ""
    return f"no kernel of its own: it arranges torch's operations{compiled}"


# --- another way beside its kernel


class _Does(NamedTuple):
    """What a part of a source does: ``computes`` and ``refers`` name what by, if at all."""

    launches: bool = False
    builds: bool = False
    computes: str = ""
    refers: str = ""

    def then(self, other: _Does) -> _Does:
        return _Does(
            self.launches or other.launches,
            self.builds or other.builds,
            self.computes or other.computes,
            self.refers or other.refers,
        )


_NOTHING = _Does()


class _Fallbacks:
    """Looks for two ways to the result, one of which does without the kernel."""

    def __init__(self, names: Names, references: set[str]) -> None:
        self._names = names
        self._references = references

    def within(self, block: list[ast.stmt], after: _Does = _NOTHING) -> Iterator[str]:
        """``after`` is what follows the block where it does not return."""
        following = [after]
        for node in reversed(block):
            following.append(self._does([node]).then(following[-1]))
        for node, rest in zip(block, reversed(following[:-1]), strict=True):
            match node:
                case ast.If(body=one, orelse=other):
                    first = self._does(one).then(rest if _leaves(other) else _NOTHING)
                    second = self._does(other).then(rest if _leaves(one) else _NOTHING)
                    yield from self._beside(node, first, second)
                case ast.Try():
                    yield from self._rescued(node, rest)
                case _:
                    pass
            for choice in _choices(node):
                first, second = self._does([choice.body]), self._does([choice.orelse])
                yield from self._beside(choice, first, second)
            for inner in _blocks(node):
                yield from self.within(inner, rest)

    def _does(self, parts: Sequence[ast.AST]) -> _Does:
        names = self._names
        return _Does(
            names.launches(parts),
            names.builds(parts),
            names.computation(parts),
            _the_reference(parts, self._references),
        )

    def _beside(self, node: ast.AST, one: _Does, other: _Does) -> Iterator[str]:
        for kernel, without in ((one, other), (other, one)):
            way = without.refers or without.computes
            if kernel.launches and not without.launches and way:
                yield _at(node, f"a branch calls its kernel one way, and {_short(way)} the other")

    def _rescued(self, node: ast.Try, rest: _Does) -> Iterator[str]:
        """A handler that does otherwise what could not be done with the kernel."""
        body = [*node.body, *node.orelse]
        tried = self._does(body)
        for handler in node.handlers:
            instead = here = self._does(handler.body)
            if _leaves(body) and not _leaves(handler.body):
                instead = here.then(rest)
            way = here.refers
            if not way and (tried.launches or tried.builds) and not instead.launches:
                way = instead.refers or instead.computes
            if way:
                yield _at(handler, f"what fails is done by {_short(way)} instead")


def _choices(node: ast.stmt) -> Iterator[ast.IfExp]:
    """``a if c else b`` in what this statement itself says: the first of them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            found = (each for each in ast.walk(child) if isinstance(each, ast.IfExp))
            yield from islice(found, _MOST_CHOICES)


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        inner = getattr(node, field, None)
        if isinstance(inner, list):
            yield inner
    for handler in getattr(node, "handlers", []):
        yield handler.body


def _leaves(block: list[ast.stmt]) -> bool:
    """Whether what follows is never reached through it."""
    match block[-1:]:
        case [ast.Return() | ast.Raise() | ast.Continue() | ast.Break()]:
            return True
        case [ast.If(body=one, orelse=other)]:
            return _leaves(one) and _leaves(other)
        case [ast.With(body=one)]:
            return _leaves(one)
        case _:
            return False


def _the_reference(block: Sequence[ast.AST], references: set[str]) -> str:
    for part in block:
        for node in ast.walk(part):
            match node:
                case ast.Name(id=name, ctx=ast.Load()) if name in references:
                    return "the task's Model"
                case ast.Attribute(attr="forward", value=ast.Call(func=ast.Name(id="super"))):
                    return "super().forward"
                case _:
                    pass
    return ""


def _short(name: str) -> str:
    return name if len(name) <= _MOST_NAMED else f"{name[: _MOST_NAMED - 1]}…"
