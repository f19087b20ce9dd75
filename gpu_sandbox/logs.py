"""Cutting compiler output to what an engineer would read aloud. Pure text in and out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpu_sandbox.lines import Origin

__all__ = ["Unexplained", "cut_compiler_output", "first_error", "unexplained"]

_ERROR = re.compile(
    r"(?<![^\s:()])(?P<file>[^\s:()]+)[:(](?P<line>\d+)\)?(?::(?P<column>\d+))?\s*(?::\s*)?"
    r"(?:fatal )?error\s*:?\s*(?P<what>.*)"
)
_TOOL = re.compile(
    r"undefined reference to .*|multiple definition of .*|cannot find -l\S+"
    r"|(?:ptxas|nvlink) (?:fatal|error).*|nvcc fatal.*"
    r"|ptxas \S+, line \d+; (?:error|fatal).*"
    r"|(?:c\+\+|g\+\+|clang\+\+|cc1plus)\S*: (?:fatal )?error: .*"
)
"""Errors of those that see no source: linker, assembler, drivers."""
_AFTERMATH = re.compile(r"Ptx assembly aborted|collect2:|ld returned")
_REQUIRED = re.compile(
    r"(?P<file>[^\s:()]+):(?P<line>\d+):(?P<column>\d+):\s+(?:recursively )?required from"
)
_WITHIN = re.compile(r"at line (\d+)(?! of)")
_REASON = re.compile(
    r"note:\s+(?P<why>.*(?:deduced conflicting|no known conversion|candidate expects"
    r"|couldn.t deduce|mismatched types).*)"
)
_NUMBERED = re.compile(r"^\s*(\d+) \|")
_PTX = re.compile(r"ptxas \S+, line (\d+); (?:error|fatal)\s*: (.*)")
_UNDECLARED = re.compile(
    r"[‘'](?P<a>\w+)[’'] (?:was not declared in this scope|has not been declared)"
    r"|identifier \"(?P<b>\w+)\" is undefined"
)
_NO_MEMBER = re.compile(
    r"[‘'](?P<a>\w+)[’'] is not a member of"
    r"|namespace \"[^\"]*\" has no member \"(?P<b>\w+)\""
    r"|[‘'][\w:]+::(?P<c>\w+)[’'] has not been declared"
)
_NO_TENSOR_MEMBER = re.compile(
    r"class at::Tensor[’'] has no member|class \"at::Tensor\" has no member"
    r"|no matching function for call to [‘']at::Tensor(?:Base)?::(?!index)"
)
_MISMATCH = re.compile(
    r"no matching function for call to|no match for|(?:cannot|could not) convert"
    r"|invalid (?:operands|conversion|cast|initialization)|redefinition of|redeclaration of"
    r"|no instance of|no operator|no suitable|cannot be used to initialize|is incompatible with"
)
_TYPES = re.compile(r"[‘\"'(]\w+|(?:operand|argument) types are")
_OF_TORCH = re.compile(r"\b(?:at|c10|torch|caffe2|slim_binding)::|incomplete")
_MACRO_OF_TORCH = re.compile(r"\b(?:C10|AT|TORCH|TH|THC|CUDA)_[A-Z]\w*")
_SYNTAX = re.compile(
    r"^(?:expected (?:(?:a )?[‘'\"]|initializer|primary-expression|declaration)"
    r"|stray |missing terminating|unterminated|extra text|invalid suffix)"
)
_OF_CUDA = re.compile(r"calling a __(?:host|device|global)__ |is undefined in device code")
_ARGUMENTS = re.compile(r"too (?:few|many) arguments in function call")
_OWN_DOING = re.compile(r"static assertion failed|redefinition of")
_GENERATED = ("main.cpp", "cuda.cu")
_MAX_ERRORS = 8
_MAX_CHARS = 6000
_CONTEXT_LINES = 3
_MAX_LINE = 300
_MOST_WIDE = 1000
"""Of a line that is read at all: a candidate may have printed it."""
_FOLLOWING = 60
"""Lines below an error that may belong to it."""


class _Error(NamedTuple):
    """``told`` is one line; ``below`` what goes with it: excerpt, reasons, instantiations."""

    told: str
    below: tuple[str, ...] = ()


def cut_compiler_output(output: str, generated: dict[str, str], candidate: str) -> str:
    """The first errors, each at the candidate's own line and with its excerpt; the commands,
    warnings and repetitions dropped.

    ``generated`` holds the files that torch wrote out of the candidate's strings. An error
    in somebody else's header is told at the candidate's line that needed it.
    """
    errors = _errors(_lines(output), Origin(generated, candidate))
    found = list(
        {error.told.partition(" (in ")[0]: error for error in reversed([*errors])}.values()
    )
    found.reverse()
    if len(found) > 1:
        found = [error for error in found if not _AFTERMATH.search(error.told)] or found[:1]
    if not found:
        lines = [line for line in output.splitlines() if line and "FAILED: " not in line]
        return "\n".join(line[:_MAX_LINE] for line in lines[-20:])
    lines = [line for error in found[:_MAX_ERRORS] for line in (error.told, *error.below)]
    if len(found) > _MAX_ERRORS:
        lines.append(f"… {len(found) - _MAX_ERRORS} more errors")
    return "\n".join(line[:_MAX_LINE] for line in lines)[:_MAX_CHARS]


def first_error(cut: str) -> str:
    """One line for people."""
    return next((line for line in cut.splitlines() if line.strip()), "")[:300]


def _lines(output: str) -> list[str]:
    return [line[:_MOST_WIDE] for line in output.splitlines()]


def _errors(lines: list[str], origin: Origin) -> Iterator[_Error]:
    needed: list[tuple[str, int]] = []
    for number, line in enumerate(lines):
        if found := _ERROR.search(line):
            yield _source_error(found, lines[number + 1 : number + 1 + _FOLLOWING], needed, origin)
            needed = []
        elif found := _REQUIRED.match(line):
            needed.append((_name(found["file"]), int(found["line"])))
        elif found := _TOOL.search(line):
            yield _tool_error(found[0], origin)


def _source_error(
    found: re.Match[str], following: list[str], needed: list[tuple[str, int]], origin: Origin
) -> _Error:
    name, line, what = _name(found["file"]), int(found["line"]), found["what"]
    where = f"{name}:{line}" + (f":{found['column']}" if found["column"] else "")
    own = origin.line(name, line)
    if own is not None:
        where = f"candidate.py:{own}" + (f":{found['column']}" if found["column"] else "")
    else:
        for user in needed:
            if (needs := origin.line(*user)) is not None:
                where, what = f"candidate.py:{needs}", f"{what} (in {where}, needed here)"
                break
        else:
            if (named := origin.naming(what)) is not None:
                where += f" (see candidate.py:{named})"
    below = [*_excerpt(following, name, own, origin), *_reasons(following)]
    return _Error(f"{where}: error: {what}", tuple(below))


def _tool_error(told: str, origin: Origin) -> _Error:
    if found := _PTX.match(told):
        told = f"ptxas error: {found[2]} (line {found[1]} of the PTX)"
    named = origin.naming(told)
    return _Error(f"candidate.py:{named}: {told}" if named is not None else told)


def _excerpt(following: list[str], name: str, own: int | None, origin: Origin) -> list[str]:
    """g++ and nvcc show the line and a caret below an error, and what instantiated it."""
    kept: list[str] = []
    for line in following[: 2 * _CONTEXT_LINES]:
        if not line.startswith((" ", "\t")) or "note:" in line:
            break
        if found := _WITHIN.search(line):
            user = origin.line(name, int(found[1]))
            line = line.replace(found[0], f"at candidate.py:{user}" if user else found[0])
        elif len(kept) == _CONTEXT_LINES:
            break
        kept.append(line if own is None else _NUMBERED.sub(f"{own:5} |", line))
    return kept


def _reasons(following: list[str]) -> list[str]:
    """Why the nearest candidates of an overload did not fit."""
    why: dict[str, None] = {}
    for line in following:
        if _ERROR.search(line):
            break
        if found := _REASON.search(line):
            why[f"      note: {found['why'].strip()}"] = None
    return list(why)[:2]


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


class Unexplained(NamedTuple):
    """What might be missing from the slim headers: names of macros, names of members.

    ``anyway``: an error that says nothing of names, and may be about anything.
    """

    macros: frozenset[str]
    members: frozenset[str]
    anyway: bool


def unexplained(output: str) -> Unexplained:
    """Sort a failed slim build's errors by whether the real headers could cure them.

    Most failures are the candidate's own and certain to fail again: syntax, an unknown
    plain name (only a macro could be torch's), a member that no tensor has, types that
    don't match and aren't torch's.
    """
    macros: set[str] = set()
    members: set[str] = set()
    anyway = False
    lines = _lines(output)
    for number, whole in enumerate(lines):
        found = _ERROR.search(whole)
        what = found["what"] if found else ""
        following = lines[number + 1 : number + 6]
        if not found or _certain(what, following) or _kernels_own(found, following):
            continue
        if unknown := _UNDECLARED.search(what):
            macros.add(unknown["a"] or unknown["b"])
        elif missing := _NO_MEMBER.search(what):
            members.add(missing["a"] or missing["b"] or missing["c"])
        else:
            anyway = True
    linking = any(_TOOL.search(line) for line in lines)
    nothing = not macros and not members and not any(_ERROR.search(line) for line in lines)
    return Unexplained(frozenset(macros), frozenset(members), anyway or (nothing and not linking))


def _kernels_own(found: re.Match[str], following: list[str]) -> bool:
    """Whether it is about device code, a launch, or something said twice or asserted."""
    what = found["what"]
    if _ARGUMENTS.search(what):
        return "<<<" in "".join(following[:1])
    if _OWN_DOING.search(what):
        return found["file"].endswith(_GENERATED)
    return _OF_CUDA.search(what) is not None


def _certain(what: str, following: list[str]) -> bool:
    """Whether an error would be the same with any headers."""
    if _NO_TENSOR_MEMBER.search(what):
        return True
    if _SYNTAX.match(what):
        return not any(_MACRO_OF_TORCH.search(line) for line in following[:2])
    if not _MISMATCH.search(what):
        return False
    spelled = "\n".join([what, *(line for line in following if "types are" in line)])
    named = _TYPES.search(spelled.split("operator", 1)[0]) or "types are" in spelled
    return bool(named) and not _OF_TORCH.search(spelled)
