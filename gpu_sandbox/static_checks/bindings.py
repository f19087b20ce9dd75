"""Definitions, assignments and imports of a source. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef


def without_main(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements without those under ``if __name__ == "__main__"``."""
    for node in body:
        tested = ast.walk(node.test) if isinstance(node, ast.If) else ()
        if not any(isinstance(n, ast.Name) and n.id == "__name__" for n in tested):
            yield node


def imports(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    root = alias.name.split(".")[0]
                    yield (alias.asname, alias.name) if alias.asname else (root, root)
            case ast.ImportFrom(module=module, names=aliases):
                for alias in aliases:
                    yield alias.asname or alias.name, f"{module or ''}.{alias.name}"
            case _:
                pass


def definitions(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """At module level, also where it is in a branch or a ``try``."""
    for node in without_main(body):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name, node
            case ast.Assign() | ast.AnnAssign():
                for target, _ in assignments([node]):
                    if isinstance(target, ast.Name):
                        yield target.id, node
            case ast.If(body=one, orelse=other):
                yield from definitions([*one, *other])
            case ast.With(body=one):
                yield from definitions(one)
            case ast.Try(body=one, handlers=handlers, orelse=other, finalbody=last):
                yield from definitions([*one, *other, *last])
                yield from definitions(s for handler in handlers for s in handler.body)
            case _:
                pass


def functions(nodes: list[ast.AST]) -> Iterator[tuple[str, Function]]:
    """Key and function; methods have keys of attributes."""
    methods = {
        id(member) for node in nodes if isinstance(node, ast.ClassDef) for member in node.body
    }
    for node in nodes:
        if isinstance(node, Function):
            yield (f".{node.name}" if id(node) in methods else node.name), node


def assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield target, value
            case ast.NamedExpr(target=target, value=value):
                yield target, value
            case _:
                pass
