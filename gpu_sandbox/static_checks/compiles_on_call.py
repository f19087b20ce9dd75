"""Whether a candidate may compile something when it is called, by its source. Pure.

No verdict depends on it: what is missed is compiled under the lease.
"""

from __future__ import annotations

import ast

from gpu_sandbox.languages import languages_and_compilers
from gpu_sandbox.static_checks.bindings import imports
from gpu_sandbox.static_checks.visit_budget import TooMuch, Visits

_NO_COMPILERS = frozenset({"re", "regex"})  # modules with another ``compile``


def compiles_when_called(source: str) -> bool:
    """Whether it imports a compiler's package, or compiles a module or function of torch's."""
    packages = {
        package for language in languages_and_compilers() if language.compiles_when_called
        for package in language.packages
    }  # fmt: skip
    if not any(name in source for name in (*packages, "compile")):
        return False
    visits = Visits()
    try:
        nodes = list(visits.walk(ast.parse(source)))
    except (TooMuch, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    imported = list(imports(nodes))
    paths = {path for _, path in imported}
    if "torch.compile" in paths or any(path.split(".")[0] in packages for path in paths):
        return True
    others = {name for name, path in imported if path in _NO_COMPILERS}
    return any(_is_compile(node, others) for node in nodes)


def _is_compile(node: ast.AST, others: set[str]) -> bool:
    """``torch.compile``, ``model.compile``."""
    if not (isinstance(node, ast.Attribute) and node.attr == "compile"):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id in others)
