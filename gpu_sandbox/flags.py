"""Compiler flags that a precompiled header depends on, and those of a candidate.

A precompiled header serves only what is compiled with the flags it was made with. Flags
that are not known here get none: the trusted side passes no others to its compiler.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shlex
from collections.abc import Iterable

__all__ = ["flag_sets", "header_name", "relevant"]

_BUILDERS = frozenset({"load_inline", "load"})
_NEUTRAL = re.compile(r"-W.*|-w|-[IDU].+|-funroll-loops|-fPIC|-pipe")
_DECISIVE = re.compile(
    r"-O(?:[0-3sg]|fast)?|-std=(?:c|gnu)\+\+\w+|-g[0-3]?|-pthread|-DNDEBUG"
    r"|-m(?:arch|tune)=[\w.-]+|-m(?:no-)?(?:avx|sse|fma|f16c|bmi|popcnt|lzcnt)[\w.]*"
    r"|-mprefer-vector-width=\w+"
    r"|-f(?:no-)?(?:fast-math|openmp|openmp-simd|finite-math-only|associative-math|math-errno"
    r"|trapping-math|signed-zeros|signaling-nans|reciprocal-math|unsafe-math-optimizations"
    r"|strict-aliasing|tree-vectorize|inline-functions|omit-frame-pointer|ipa-pta"
    r"|prefetch-loop-arrays|tree-loop-vectorize|tree-slp-vectorize|rounding-math)"
    r"|-ffp-contract=(?:fast|on|off)|-fvisibility=\w+"
)


def relevant(extra_cflags: Iterable[str]) -> tuple[str, ...] | None:
    """The flags that decide, in order; None if there is one that is not known."""
    try:
        words = shlex.split(" ".join(map(str, extra_cflags)))
    except ValueError:
        return None
    kept = []
    for word in words:
        if _DECISIVE.fullmatch(word):
            kept.append(word)
        elif not _NEUTRAL.fullmatch(word):
            return None
    return tuple(kept)


def header_name(flags: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(flags).encode()).hexdigest()[:16]


def flag_sets(source: str) -> list[tuple[str, ...]]:
    """What a candidate's builds will ask for, as far as reading its source can tell."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    named = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    found: list[tuple[str, ...]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node.func) in _BUILDERS:
            given = [k.value for k in node.keywords if k.arg == "extra_cflags"]
            words = _words(given[0], named) if given else []
            flags = None if words is None else relevant(words)
            if flags is not None and flags not in found:
                found.append(flags)
    return found


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _words(value: ast.expr, named: dict[str, ast.expr]) -> list[str] | None:
    """A list of literal strings, also by name and as a sum."""
    match value:
        case ast.Name(id=name) if name in named:
            return _words(named[name], {k: v for k, v in named.items() if k != name})
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _words(left, named), _words(right, named)
            return None if first is None or second is None else first + second
        case ast.Constant(value=None):
            return []
        case ast.List(elts=items) | ast.Tuple(elts=items):
            words = [item.value if isinstance(item, ast.Constant) else None for item in items]
            return [str(word) for word in words] if None not in words else None
        case _:
            return None
