"""The names of the sandbox that an attack reaches for, read off its source.

An attack whose target was renamed attacks nothing, and its test passes. So no attack may look for
a name that does not exist; what can only be found where it runs, it says by ``LookupError(BLIND)``.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import gpu_sandbox

__all__ = ["BLIND", "missing_targets"]

BLIND = "attack is blind"
"""In the reason, or in a log: it has not found what it attacks."""

_PACKAGE = Path(gpu_sandbox.__file__ or "").parent
_HARNESS = frozenset({"self", "slot", "asked", "turns", "kernels", "clocked", "channel", "request"})
"""What an attack calls the objects of the sandbox that its functions are given."""


def missing_targets(source: str) -> list[str]:
    """Modules, attributes of these, and attributes of objects of the sandbox that do not exist."""
    tree = ast.parse(source)
    found = [f"no module {name}" for name in _module_names(tree) if _module(name) is None]
    aliases = dict(_aliases(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (lost := _lost(node, aliases)):
            found.append(lost)
    if aliases:
        found += _unknown_attributes(tree)
    return sorted(set(found))


def _module_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text.startswith("gpu_sandbox."):
                yield text
            case ast.ImportFrom(module=str(text)) if text.startswith("gpu_sandbox"):
                yield text
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.startswith("gpu_sandbox"))


@cache
def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names that stand for modules of the sandbox."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    if each.name.startswith("gpu_sandbox") and each.asname:
                        yield each.asname, each.name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if text := _asked(value):
                yield name, text
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for target, value in zip(names, values, strict=False):
                    if isinstance(target, ast.Name) and (text := _asked(value)):
                        yield target.id, text


def _asked(value: ast.expr) -> str:
    """The name of a module that is looked up by name."""
    match value:
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="sys"), attr="modules"),
            slice=ast.Constant(value=str(text)),
        ) if text.startswith("gpu_sandbox"):
            return text
    return ""


def _lost(node: ast.Attribute, aliases: dict[str, str]) -> str:
    """The first attribute of a chain from a module on that does not exist."""
    chain, inner = [node.attr], node.value
    while isinstance(inner, ast.Attribute):
        chain.append(inner.attr)
        inner = inner.value
    name = aliases.get(inner.id, "") if isinstance(inner, ast.Name) else _asked(inner)
    owner: Any = _module(name) if name else None
    if owner is None:
        return ""
    for each in reversed(chain):
        if not hasattr(owner, each):
            return f"no {each} in {getattr(owner, '__name__', owner)}"
        owner = getattr(owner, each)
        if not isinstance(owner, type | ModuleType):
            break
    return ""


def _unknown_attributes(tree: ast.Module) -> list[str]:
    """Of what its functions are given by the sandbox, by what these call it."""
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if _is_stored(node)}
    own |= {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    return [
        f"nothing in the sandbox has an attribute {node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in _HARNESS
        and node.attr not in own | _attributes()
    ]


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)


@cache
def _attributes() -> frozenset[str]:
    """All attributes and methods that the sandbox's sources define."""
    found: set[str] = set()
    for path in _PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    found.add(name)
    return frozenset(found)
