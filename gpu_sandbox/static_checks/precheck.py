"""Checks of a candidate's source before anything runs: cheap feedback, no defence."""

from __future__ import annotations

import ast

import msgspec

from events.outcomes import CompileFailed, NoCandidate

MAX_SOURCE_BYTES = 256 << 10  # several times any kernel's; takes at most 2 s and 250 MB to read
_TOO_LARGE = (
    f"the source is larger than {MAX_SOURCE_BYTES >> 10} KiB, the most that is judged:"
    " write it shorter"
)
_MAX_SHOWN = 200

_BUILDERS = frozenset({"load_inline", "load", "CppExtension", "CUDAExtension"})
_BUILD_HINTS = ("cpp_extension", "load_inline", "ctypes", "subprocess", "nvrtc", "cffi")


class Inspected(msgspec.Struct, frozen=True, kw_only=True):
    """``outcome`` ends the evaluation, and ``log`` shows the place. ``builds``: it may compile
    something; ``builds_late``: inside a function, so that importing alone is not enough."""

    outcome: CompileFailed | NoCandidate | None = None
    log: str = ""
    builds: bool = False
    builds_late: bool = False


def inspect_candidate(source: str) -> Inspected:
    if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
        return Inspected(outcome=CompileFailed(reason=_TOO_LARGE))
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        where = f"candidate.py:{error.lineno}: " if error.lineno else ""
        outcome = CompileFailed(reason=f"{where}syntax error: {error.msg}")
        return Inspected(outcome=outcome, log=_shown(source, error))
    except (ValueError, RecursionError, MemoryError) as error:
        return Inspected(outcome=CompileFailed(reason=f"the source can't be parsed: {error}"))
    if not _binds_model_new(tree):
        return Inspected(outcome=NoCandidate(reason="the file defines no class ModelNew"))
    builds = any(hint in source for hint in _BUILD_HINTS)
    return Inspected(builds=builds, builds_late=builds and _calls_builder_inside(tree))


def _shown(source: str, error: SyntaxError) -> str:
    """The line of a syntax error with the one before it, and a caret."""
    lines, last = source.splitlines(), error.lineno or 0
    if not 0 < last <= len(lines):
        return ""
    shown = [f"{n:5} | {lines[n - 1][:_MAX_SHOWN]}" for n in (last - 1, last) if n > 0]
    column = min(max(error.offset or 1, 1), _MAX_SHOWN)
    caret = f"{'':5} | {' ' * (column - 1)}^"
    return "\n".join([f"candidate.py:{last}:{column}: {error.msg}", *shown, caret])


def _binds_model_new(tree: ast.Module) -> bool:
    """A class, an assignment or an import of that name, wherever at module level it hides."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name="ModelNew"):
                return True
            case ast.Name(id="ModelNew", ctx=ast.Store()):
                return True
            case ast.alias(name=name, asname=asname) if "ModelNew" in (name, asname):
                return True
            case _:
                pass
    return False


def _calls_builder_inside(tree: ast.Module) -> bool:
    """Whether a call that looks like a build sits inside a function or method."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if inside and _is_build(node):
            return True
        inside = inside or isinstance(node, functions)
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
    return False


def _is_build(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _BUILDERS
