"""Which names a candidate's source defines and which it needs. Pure."""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections.abc import Iterator, Sequence

from agents.python_source import MODEL_NEW, syntax_error, tree_of

__all__ = ["defines_model_new", "missing_halves"]

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__"}


def defines_model_new(source: str) -> bool:
    """Whether ``source`` defines the candidate by itself. What only gives the name to something
    else, as an example of use does (``ModelNew = torch.compile(ModelNew)``), does not."""
    if MODEL_NEW.search(source) is None:
        return False
    tree = None if syntax_error(source) else tree_of(source)
    if tree is None:
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == "ModelNew":
            return True
    bound = None
    for value in _assigned(tree):
        bound = _bound(source) if bound is None else bound
        needed = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
        if "ModelNew" not in needed and needed <= bound | _BUILTINS:
            return True
    return False


def missing_halves(source: str, others: Sequence[str]) -> list[str]:
    """Names that ``source`` needs and does not define, and one of ``others`` does."""
    needed = _unbound(source) if others else frozenset()
    given: set[str] = set()
    for other in others if needed else ():
        given |= _bound(other)
    return sorted(needed & given)


def _assigned(tree: ast.Module) -> Iterator[ast.expr]:
    """What ``ModelNew`` is assigned."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "ModelNew" for target in node.targets
        ):
            yield node.value


def _table(source: str) -> symtable.SymbolTable | None:
    if tree_of(source) is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return symtable.symtable(source, "<reply>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(source: str) -> frozenset[str]:
    """Names that the module defines."""
    table = _table(source)
    if table is None:
        return frozenset()
    return frozenset(s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()
                     or s.is_namespace())  # fmt: skip


def _unbound(source: str) -> frozenset[str]:
    """Names that are looked up in the module and not there; none where it imports ``*``."""
    table = _table(source)
    tree = tree_of(source)
    if table is None or tree is None:
        return frozenset()
    if any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in ast.walk(tree)):
        return frozenset()
    looked_up: set[str] = set()
    tables = [table]
    while tables:
        scope = tables.pop()
        tables += scope.get_children()
        at_top = scope is table
        looked_up.update(
            symbol.get_name() for symbol in scope.get_symbols()
            if symbol.is_referenced() and (at_top or symbol.is_global())
        )  # fmt: skip
    return frozenset(looked_up) - _bound(source) - _BUILTINS
