"""Compiler flags that a precompiled header depends on, and those of a candidate.

The trusted side passes no flags to its compiler that are not known here.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shlex
from collections.abc import Iterable

from gpu_sandbox.static_checks.visit_budget import TooMuch, Visits

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
_MAX_WORDS = 200
_MAX_SETS = 4  # of one candidate: each may cost a precompiled header


def relevant(extra_cflags: Iterable[str]) -> tuple[str, ...] | None:
    """Flags that a header depends on, in order; None if one is not known."""
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
    """Sets of flags in a candidate's builds, as far as its source shows them. None of a source
    that would take long to read, or has many."""
    visits = Visits()
    found: dict[tuple[str, ...], None] = {}
    try:
        tree = ast.parse(source)
        given = _Given(tree, visits)
        for node in visits.walk(tree):
            if isinstance(node, ast.Call) and _called(node.func) in _BUILDERS:
                flags = _asked(node, given, visits)
                if flags is not None:
                    found[flags] = None
    except (TooMuch, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(found) if len(found) <= _MAX_SETS else []


def _asked(call: ast.Call, given: _Given, visits: Visits) -> tuple[str, ...] | None:
    """The relevant flags of one build, if they can be read."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "extra_cflags"]
    words = given.words(values[0]) if values else []
    if words is None:
        return None
    visits.spend(sum(map(len, words)))
    return relevant(words)


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


class _Given:
    """Lists of literal strings in one file, also by name and as a sum. Each name is looked up
    once: sums of names that are sums of names would double at every step."""

    def __init__(self, tree: ast.Module, visits: Visits) -> None:
        self._visits = visits
        self._named = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        self._known: dict[str, list[str] | None] = {}

    def words(self, value: ast.expr) -> list[str] | None:
        """None where it can't be told. Raises ``TooMuch``."""
        self._visits.spend(1)
        match value:
            case ast.Name(id=name) if name in self._named:
                if name not in self._known:
                    self._known[name] = None  # of a name that is made of itself
                    self._known[name] = self.words(self._named[name])
                return self._known[name]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.words(left), self.words(right)
                return None if first is None or second is None else self._counted(first + second)
            case ast.Constant(value=None):
                return []
            case ast.List(elts=items) | ast.Tuple(elts=items):
                words = [item.value if isinstance(item, ast.Constant) else None for item in items]
                return self._counted([str(w) for w in words]) if None not in words else None
            case _:
                return None

    def _counted(self, words: list[str]) -> list[str]:
        if len(words) > _MAX_WORDS:
            raise TooMuch
        self._visits.spend(len(words))
        return words
