"""What names in a candidate's source stand for. Pure.

Without scopes and types: a name means one thing throughout the file, and ``x.run`` is ``.run``
whatever ``x`` is. Labels may be wrong by that, never verdicts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpu_sandbox.languages import languages_and_compilers
from gpu_sandbox.static_checks.bindings import (
    Function,
    assignments,
    definitions,
    functions,
    imports,
    without_main,
)
from gpu_sandbox.static_checks.torch_names import TENSOR_METHODS, computes, is_own_operation
from gpu_sandbox.static_checks.visit_budget import Visits

_LOADERS = frozenset({"load_library", "CDLL", "PyDLL", "LoadLibrary"})
"""Of compiled code, whatever it was written in."""
_HOLDERS = frozenset({"Parameter", "ParameterList", "ParameterDict", "Buffer", "Module"})
_ROUNDS = 6
_DEEPEST = 12
"""Names with dots between, followed at most: a source may be written to take for ever."""


class _Defined(NamedTuple):
    """A function or a class, and what is called and returned in its body."""

    key: str
    node: Function | ast.ClassDef
    calls: list[ast.Call]
    returned: list[ast.expr]


class _Assigned(NamedTuple):
    """``classes``: those of the file's that are called in the value."""

    key: str
    value: ast.expr
    classes: frozenset[str]


class Names:
    """Of one parsed file.

    ``builders``: names of what makes kernels, in any file. ``imports``: name → dotted path.
    ``definitions``: name → where it is defined at module level. ``kernels`` hold something built,
    or are compiled themselves; ``giving`` are functions that return such; ``launching`` call one,
    directly or not; ``computing`` use torch's operations and launch nothing; ``modules`` hold
    torch's.
    """

    def __init__(self, tree: ast.Module, visits: Visits) -> None:
        self._visits = visits
        compilers = languages_and_compilers()
        self.builders = _LOADERS.union(*(compiler.builders for compiler in compilers))
        self._decorators = {
            package for compiler in compilers if compiler.has_kernel_decorators
            for package in compiler.packages
        }  # fmt: skip
        self.nodes = list(visits.walk(*without_main(tree.body)))
        self.imports = dict(imports(self.nodes))
        self.definitions: dict[str, list[ast.stmt]] = {}
        for name, node in definitions(tree.body):
            self.definitions.setdefault(name, []).append(node)
        defined = [self._defined(key, f) for key, f in functions(self.nodes)]
        classes = [self._defined(n.name, n) for n in self.nodes if isinstance(n, ast.ClassDef)]
        self.kernels = {key for key, f in functions(self.nodes) if self._compiled(f)}
        self.giving: set[str] = set()
        self.launching: set[str] = set()
        self.modules: set[str] = set()
        assigned = list(self._assigned({name for name, d in self.definitions.items() if any(
            isinstance(each, ast.ClassDef) for each in d)}))  # fmt: skip
        for _ in range(_ROUNDS):
            before = self._size()
            self._follow(assigned, defined, classes)
            if self._size() == before:
                break
        self.computing = self._computing([f for f in defined if f.key not in self.launching])

    def _size(self) -> int:
        return sum(map(len, (self.kernels, self.giving, self.launching)))

    def path(self, expression: ast.expr) -> str:
        """``torch.nn.functional.relu`` for ``F.relu``; empty for what was not imported."""
        names: list[str] = []
        while isinstance(expression, ast.Attribute) and len(names) < _DEEPEST:
            names.append(expression.attr)
            expression = expression.value
        root = self.imports.get(expression.id, "") if isinstance(expression, ast.Name) else ""
        return root and ".".join([root, *reversed(names)])

    # --- parts of the file, without what is in them

    def computed(self, node: ast.AST) -> str:
        """Which of torch's operations, or of the file's functions that use some, it names;
        empty if none."""
        match node:
            case ast.Name() | ast.Attribute() if computes(path := self.path(node)):
                return path
            case ast.BinOp(op=ast.MatMult()):
                return "a matrix product"
            case ast.Call(func=ast.Attribute(attr="forward", value=ast.Call(
                    func=ast.Name(id="super")))):  # fmt: skip
                return "super().forward"
            case ast.Call(func=ast.Name() | ast.Attribute() as called):
                key = key_of(called)
                if key in self.computing:
                    return key.lstrip(".")
                if key in self.modules and key not in self.launching:
                    return f"self{key}"
                method = key.startswith(".") and not self.path(called)
                return key[1:] if method and key[1:] in TENSOR_METHODS else ""
            case _:
                return ""

    def launches(self, call: ast.Call) -> bool:
        """Whether it calls a kernel of the file's own."""
        if is_builder(self, call) or _is_super(call.func):
            return False
        called = call.func
        if isinstance(called, ast.Attribute) and key_of(called.value) in self.launching:
            return True  # a class's: Function.apply, a module's forward
        key = key_of(called)
        return key in self.launching or (key not in self.giving and self.is_kernel(called))

    def is_kernel(self, expression: ast.expr, deep: int = 0) -> bool:
        """Whether it is something built, or a part of that."""
        if deep > _DEEPEST:
            return False
        match expression:
            case ast.Name() | ast.Attribute() if key_of(expression) in self.kernels:
                return True
            case ast.Name() | ast.Attribute() if is_own_operation(self.path(expression)):
                return True
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                return self.is_kernel(value, deep + 1)
            case ast.IfExp(body=one, orelse=other):
                return self.is_kernel(one, deep + 1) or self.is_kernel(other, deep + 1)
            case ast.Call(func=ast.Name(id="getattr"), args=[value, *_]):
                return self.is_kernel(value, deep + 1)
            case ast.Call(func=called):
                return is_builder(self, expression) or key_of(called) in self.giving
            case _:
                return False

    # --- how they are found out

    def _compiled(self, function: Function) -> bool:
        """By a decorator, as Triton's kernels are."""
        return any(
            self.path(node).split(".")[0] in self._decorators
            for decorator in function.decorator_list for node in ast.walk(decorator)
            if isinstance(node, ast.expr)
        )  # fmt: skip

    def _defined(self, key: str, node: Function | ast.ClassDef) -> _Defined:
        calls: list[ast.Call] = []
        returned: list[ast.expr] = []
        for part in self._visits.walk(*node.body):
            match part:
                case ast.Call():
                    calls.append(part)
                case ast.Return(value=ast.expr() as value):
                    returned.append(value)
                case _:
                    pass
        return _Defined(key, node, calls, returned)

    def _assigned(self, classes: set[str]) -> Iterator[_Assigned]:
        """Takes note of what holds a module of torch's, too."""
        last, made, module = None, frozenset[str](), False
        for target, value in assignments(self.nodes):
            self._visits.spend(1)
            if value is not last:  # one value may have many targets
                last = value
                called = [n.func for n in self._visits.walk(value) if isinstance(n, ast.Call)]
                made = frozenset(each.id for each in called if isinstance(each, ast.Name)) & classes
                module = any(_is_module(self.path(each)) for each in called)
            key = key_of(target.value if isinstance(target, ast.Subscript) else target)
            if key:
                yield _Assigned(key, value, made)
                if module:
                    self.modules.add(key)

    def _follow(
        self, assigned: list[_Assigned], functions: list[_Defined], classes: list[_Defined]
    ) -> None:
        """One more step from what is known."""
        for key, value, made in assigned:
            self._visits.spend(1)
            if self.is_kernel(value):
                self.kernels.add(key)
            if made & self.launching:
                self.launching.add(key)
        for function in functions:
            if function.key in self.kernels:
                continue
            if self._launch(function):
                self.launching.add(function.key)
            if any(self.is_kernel(value) for value in function.returned):
                self.giving.add(function.key)
        for each in classes:
            if each.key != "ModelNew" and self._launch(each):
                self.launching.add(each.key)

    def _launch(self, defined: _Defined) -> bool:
        self._visits.spend(len(defined.calls) + len(defined.returned))
        return any(self.launches(call) for call in defined.calls)

    def _computing(self, functions: list[_Defined]) -> set[str]:
        """Those that use torch's operations, or call one that does."""
        self.computing = set()
        found, calls = set[str](), list[tuple[str, set[str]]]()
        for function in functions:
            nodes = list(self._visits.walk(function.node))
            if any(self.computed(node) for node in nodes):
                found.add(function.key)
            else:
                called = {key_of(node.func) for node in nodes if isinstance(node, ast.Call)}
                calls.append((function.key, called - {""}))
        for _ in range(_ROUNDS):
            fresh = {key for key, called in calls if called & found} - found
            if not fresh:
                break
            found |= fresh
        return found


def key_of(expression: ast.expr) -> str:
    """``name`` or ``.attribute``; empty for anything else."""
    match expression:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=attr):
            return f".{attr}"
        case _:
            return ""


def is_builder(names: Names, expression: ast.expr) -> bool:
    """Whether it is a call that compiles a kernel, or loads a compiled one."""
    return isinstance(expression, ast.Call) and names_builder(names, expression.func)


def names_builder(names: Names, expression: ast.expr) -> bool:
    """Whether it is the name of what compiles a kernel, or loads a compiled one."""
    path = names.path(expression) or key_of(expression)
    parts = path.split(".")
    return parts[-1] in names.builders or ".".join(parts[-2:]) in names.builders


def _is_module(path: str) -> bool:
    name = path.split(".")[-1]
    return path.startswith("torch.nn.") and name[:1].isupper() and name not in _HOLDERS


def _is_super(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Call)
        and key_of(called.value.func) == "super"
    )
