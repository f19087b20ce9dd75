"""Branches and handlers of a candidate of which one does without its kernel. Pure.

What each part of the file does is found once, from the innermost parts outwards, in linear time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpu_sandbox.static_checks.name_resolution import Names, is_builder
from gpu_sandbox.static_checks.visit_budget import Visits

_MOST_NAMED = 60


class _Does(NamedTuple):
    """What a part of a source does. ``computes`` and ``refers``: by the names of what, if any."""

    launches: bool = False
    builds: bool = False
    computes: str = ""
    refers: str = ""

    def then(self, other: _Does) -> _Does:
        if other is _NOTHING:
            return self
        return _Does(
            self.launches or other.launches,
            self.builds or other.builds,
            self.computes or other.computes,
            self.refers or other.refers,
        )


_NOTHING = _Does()


class _Step(NamedTuple):
    """A statement, what ``follows`` where it does not return, and the variables of the loops
    that it stands in."""

    node: ast.stmt
    follows: _Does
    looped: frozenset[str]


class Fallbacks:
    """Of one file; ``references`` are its names for the task's Model."""

    def __init__(self, names: Names, references: set[str], visits: Visits) -> None:
        self._names = names
        self._references = references
        self._visits = visits
        self._done: dict[int, _Does] = {}
        self._leaving: set[int] = set()
        """Statements through which what follows is never reached."""
        for node in reversed(names.nodes):  # the parts before the whole
            visits.spend(1)
            self._learn(node)

    def first(self, block: list[ast.stmt]) -> str | None:
        """Where and what, in one line."""
        waiting = list(self._steps(block, _NOTHING, frozenset()))
        while waiting:
            step = waiting.pop()
            found = next(self._ways(step), None) or next(self._choices(step), None)
            if found:
                return found
            node, follows, looped = step
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    follows = _NOTHING  # its end is not followed by what stands below it
                case ast.For(target=target) | ast.AsyncFor(target=target):
                    looped = self._and_named_in(looped, [target])
                case _:
                    pass
            for inner in reversed([*_blocks(node)]):
                waiting += self._steps(inner, follows, looped)
        return None

    def _steps(
        self, block: list[ast.stmt], after: _Does, looped: frozenset[str]
    ) -> Iterator[_Step]:
        """The last one first."""
        for node in reversed(block):
            yield _Step(node, after, looped)
            after = self._does([node]).then(after)

    # --- what a part does

    def _learn(self, node: ast.AST) -> None:
        does = self._itself(node)
        for child in ast.iter_child_nodes(node):
            does = does.then(self._done.get(id(child), _NOTHING))
        if does != _NOTHING:
            self._done[id(node)] = does
        match node:
            case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
                self._leaving.add(id(node))
            case ast.If(body=one, orelse=other) if self._leaves(one) and self._leaves(other):
                self._leaving.add(id(node))
            case ast.With(body=one) if self._leaves(one):
                self._leaving.add(id(node))
            case _:
                pass

    def _itself(self, node: ast.AST) -> _Does:
        """Without its parts."""
        if not isinstance(node, ast.expr):
            return _NOTHING
        names = self._names
        return _Does(
            isinstance(node, ast.Call) and names.launches(node),
            is_builder(names, node),
            names.computed(node),
            _the_reference(node, self._references),
        )

    def _does(self, block: list[ast.stmt]) -> _Does:
        does = _NOTHING
        for node in block:
            does = does.then(self._done.get(id(node), _NOTHING))
        return does

    def _leaves(self, block: list[ast.stmt]) -> bool:
        """Whether what follows is never reached through it."""
        return bool(block) and id(block[-1]) in self._leaving

    # --- two ways

    def _ways(self, step: _Step) -> Iterator[str]:
        node, rest, looped = step
        match node:
            case ast.If(test=test, body=one, orelse=other) if not self._tells(test, looped):
                first = self._does(one).then(rest if self._leaves(other) else _NOTHING)
                second = self._does(other).then(rest if self._leaves(one) else _NOTHING)
                yield from _beside(node, first, second)
            case ast.Try():
                yield from self._rescued(node, rest)
            case _:
                pass

    def _choices(self, step: _Step) -> Iterator[str]:
        """``a if c else b`` in what the statement itself says."""
        said = [each for each in ast.iter_child_nodes(step.node) if isinstance(each, ast.expr)]
        parts = list(self._visits.walk(*said))
        targets = [part.target for part in parts if isinstance(part, ast.comprehension)]
        looped = self._and_named_in(step.looped, targets) if targets else step.looped
        for part in parts:
            if isinstance(part, ast.IfExp) and not self._tells(part.test, looped):
                one, other = (self._done.get(id(x), _NOTHING) for x in (part.body, part.orelse))
                yield from _beside(part, one, other)

    def _rescued(self, node: ast.Try, rest: _Does) -> Iterator[str]:
        """A handler that does otherwise what could not be done with the kernel."""
        body = [*node.body, *node.orelse]
        tried = self._does(body)
        for handler in node.handlers:
            instead = here = self._does(handler.body)
            if self._leaves(body) and not self._leaves(handler.body):
                instead = here.then(rest)
            way = here.refers
            if not way and (tried.launches or tried.builds) and not instead.launches:
                way = instead.refers or instead.computes
            if way:
                yield _at(handler, f"what fails is done by {_short(way)} instead")

    # --- loops

    def _tells(self, test: ast.expr, looped: frozenset[str]) -> bool:
        """Whether it tests a loop's variable: layers of different kinds are no alternatives."""
        if not looped:
            return False
        return any(isinstance(n, ast.Name) and n.id in looped for n in self._visits.walk(test))

    def _and_named_in(self, looped: frozenset[str], targets: list[ast.expr]) -> frozenset[str]:
        self._visits.spend(len(looped))
        named = (n.id for n in self._visits.walk(*targets) if isinstance(n, ast.Name))
        return looped | frozenset(named)


def _beside(node: ast.AST, one: _Does, other: _Does) -> Iterator[str]:
    for kernel, without in ((one, other), (other, one)):
        way = without.refers or without.computes
        if kernel.launches and not without.launches and way:
            yield _at(node, f"a branch calls its kernel one way, and {_short(way)} the other")


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        inner = getattr(node, field, None)
        if isinstance(inner, list):
            yield inner
    for handler in getattr(node, "handlers", []):
        yield handler.body


def _the_reference(node: ast.expr, references: set[str]) -> str:
    match node:
        case ast.Name(id=name, ctx=ast.Load()) if name in references:
            return "the task's Model"
        case ast.Attribute(attr="forward", value=ast.Call(func=ast.Name(id="super"))):
            return "super().forward"
        case _:
            return ""


def _at(node: ast.AST, reason: str) -> str:
    return f"candidate.py:{getattr(node, 'lineno', 0)}: {reason}"


def _short(name: str) -> str:
    return name if len(name) <= _MOST_NAMED else f"{name[: _MOST_NAMED - 1]}…"
