"""What names in a candidate's source stand for, as far as reading it can tell. Pure.

No scopes and no types: a name means one thing throughout the file. ``x.run`` is kept as
``.run``, whatever ``x`` is. What is wrong about that is wrong about a label, never about a
verdict.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from gpu_sandbox.torch_names import TENSOR_METHODS, computes, is_own_operation

__all__ = ["Names", "is_builder", "key_of", "stands_alone"]

_BUILDERS = frozenset({
    "load_inline", "_compile_kernel", "load_library", "CDLL", "PyDLL", "LoadLibrary", "RawKernel",
    "RawModule", "ElementwiseKernel", "ReductionKernel", "SourceModule",
})  # fmt: skip
_KERNEL_LANGUAGES = frozenset(
    {"triton", "numba", "cutlass", "tilelang", "helion", "warp", "pallas"}
)
_HOLDERS = frozenset({"Parameter", "ParameterList", "ParameterDict", "Buffer", "Module"})
_ROUNDS = 6
_DEEPEST = 12
"""Names with dots between, followed at most: a source may be written to take for ever."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Names:
    """Of one parsed file.

    ``imports``: a name → the dotted path that it is short for. ``definitions``: a name → where
    it is defined at module level. ``kernels`` hold something that was built, or are compiled
    themselves; ``giving`` are functions that return such; ``launching`` call one, sooner or
    later; ``computing`` use torch's operations and launch nothing; ``modules`` hold torch's.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.nodes = [node for part in _without_main(tree.body) for node in ast.walk(part)]
        self.imports = dict(_imports(self.nodes))
        self.definitions: dict[str, list[ast.stmt]] = {}
        for name, node in _definitions(tree.body):
            self.definitions.setdefault(name, []).append(node)
        functions = list(_functions(self.nodes))
        self.kernels = {key for key, f in functions if self._compiled(f)}
        self.giving: set[str] = set()
        self.launching: set[str] = set()
        self.modules: set[str] = set()
        for _ in range(_ROUNDS):
            before = self._size()
            self._follow(functions)
            if self._size() == before:
                break
        self.computing: set[str] = set()
        for _ in range(_ROUNDS):
            fresh = {k for k, f in functions if k not in self.launching and self.computation([f])}
            if fresh <= self.computing:
                break
            self.computing |= fresh

    def _size(self) -> int:
        return sum(map(len, (self.kernels, self.giving, self.launching, self.modules)))

    def path(self, expression: ast.expr) -> str:
        """``torch.nn.functional.relu`` for ``F.relu``; empty for what was not imported."""
        names: list[str] = []
        while isinstance(expression, ast.Attribute) and len(names) < _DEEPEST:
            names.append(expression.attr)
            expression = expression.value
        root = self.imports.get(expression.id, "") if isinstance(expression, ast.Name) else ""
        return root and ".".join([root, *reversed(names)])

    # --- what is asked of parts of the file

    def builds(self, parts: Iterable[ast.AST]) -> bool:
        return any(
            isinstance(node, ast.Call) and is_builder(self, node)
            for part in parts for node in ast.walk(part)
        )  # fmt: skip

    def launches(self, parts: Iterable[ast.AST]) -> bool:
        """Whether a kernel of the file's own is called in them."""
        return any(
            isinstance(node, ast.Call) and self._launches(node)
            for part in parts for node in ast.walk(part)
        )  # fmt: skip

    def computation(self, parts: Iterable[ast.AST]) -> str:
        """The first of torch's operations, or of functions of the file that use some, that is
        named in them; empty if there is none."""
        for part in parts:
            for node in ast.walk(part):
                if found := self._computed(node):
                    return found
        return ""

    def _computed(self, node: ast.AST) -> str:
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

    def _launches(self, call: ast.Call) -> bool:
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
            self.path(node).split(".")[0] in _KERNEL_LANGUAGES
            for decorator in function.decorator_list for node in ast.walk(decorator)
            if isinstance(node, ast.expr)
        )  # fmt: skip

    def _follow(self, functions: list[tuple[str, Function]]) -> None:
        """One more step from what is known."""
        for target, value in _assignments(self.nodes):
            key = key_of(target.value if isinstance(target, ast.Subscript) else target)
            if not key:
                continue
            if self.is_kernel(value):
                self.kernels.add(key)
            called = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
            paths = [self.path(each) for each in called]
            if any(
                isinstance(each, ast.Name) and self._is_launching_class(each) for each in called
            ):
                self.launching.add(key)
            if any(p.startswith("torch.nn.") and p.split(".")[-1][0].isupper()
                   and p.split(".")[-1] not in _HOLDERS for p in paths):  # fmt: skip
                self.modules.add(key)
        for key, function in functions:
            if key in self.kernels:
                continue
            if self.launches(function.body):
                self.launching.add(key)
            returned = (n.value for n in ast.walk(function) if isinstance(n, ast.Return))
            if any(value is not None and self.is_kernel(value) for value in returned):
                self.giving.add(key)
        for node in self.nodes:
            match node:
                case ast.ClassDef(name=name) if name != "ModelNew" and self.launches(node.body):
                    self.launching.add(name)
                case _:
                    pass

    def _is_launching_class(self, name: ast.Name) -> bool:
        defined = self.definitions.get(name.id, [])
        return name.id in self.launching and any(isinstance(d, ast.ClassDef) for d in defined)


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
    if not isinstance(expression, ast.Call):
        return False
    path = names.path(expression.func) or key_of(expression.func)
    return path.split(".")[-1] in _BUILDERS or path.endswith("cpp_extension.load")


def stands_alone(tree: ast.Module) -> list[ast.stmt]:
    """A file's statements without what only runs when it is a program."""
    return list(_without_main(tree.body))


def _is_super(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Call)
        and key_of(called.value.func) == "super"
    )


def _without_main(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        names = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)} if isinstance(
            node, ast.If) else set()  # fmt: skip
        if "__name__" not in names:
            yield node


def _imports(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
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


def _definitions(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """At module level, also where it is in a branch or a ``try``."""
    for node in _without_main(list(body)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name, node
            case ast.Assign() | ast.AnnAssign():
                for target, _ in _assignments([node]):
                    if isinstance(target, ast.Name):
                        yield target.id, node
            case ast.If(body=one, orelse=other):
                yield from _definitions([*one, *other])
            case ast.With(body=one):
                yield from _definitions(one)
            case ast.Try(body=one, handlers=handlers, orelse=other, finalbody=last):
                yield from _definitions([*one, *other, *last])
                yield from _definitions(s for handler in handlers for s in handler.body)
            case _:
                pass


def _functions(nodes: list[ast.AST]) -> Iterator[tuple[str, Function]]:
    """Each by its key; methods as attributes."""
    methods = {
        id(member) for node in nodes if isinstance(node, ast.ClassDef) for member in node.body
    }
    for node in nodes:
        if isinstance(node, Function):
            yield (f".{node.name}" if id(node) in methods else node.name), node


def _assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
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
