"""Cutting compiler output to what an engineer would read aloud. Pure text in and out."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Unexplained", "cut_compiler_output", "first_error", "unexplained"]

_ERROR = re.compile(
    r"(?P<file>[^\s:()]+)[:(](?P<line>\d+)\)?(?::(?P<column>\d+))?\s*:?\s*"
    r"(?:fatal )?error\s*:?\s*(?P<what>.*)"
)
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
_LINK_ERROR = re.compile(
    r"undefined reference to .*|multiple definition of .*|ptxas (?:fatal|error).*"
)
_SYNTAX = re.compile(
    r"^(?:expected (?:(?:a )?[‘'\"]|initializer|primary-expression|declaration)"
    r"|stray |missing terminating|unterminated|extra text|invalid suffix)"
)
_MAX_ERRORS = 8
_CONTEXT_LINES = 3


def cut_compiler_output(output: str, generated: dict[str, str], candidate: str) -> str:
    """The first errors with their excerpts; ninja's and the drivers' noise dropped.

    ``generated`` holds the files that torch wrote out of the candidate's strings: where
    a line of theirs occurs once in ``candidate``, its place there is named as well.
    """
    lines = output.splitlines()
    kept: list[str] = []
    errors = 0
    for number, line in enumerate(lines):
        found = _ERROR.search(line)
        if found:
            errors += 1
            if errors > _MAX_ERRORS:
                continue
            kept.append(_located(found, generated, candidate))
            kept += _excerpt(lines[number + 1 :])
        elif _LINK_ERROR.search(line):
            errors += 1
            if errors <= _MAX_ERRORS:
                kept.append(_LINK_ERROR.search(line)[0])  # type: ignore[index]
    if errors > _MAX_ERRORS:
        kept.append(f"… {errors - _MAX_ERRORS} more errors")
    return "\n".join(kept) if kept else "\n".join(lines[-20:])


def first_error(cut: str) -> str:
    """One line for people."""
    return next((line for line in cut.splitlines() if line.strip()), "")[:300]


def _located(found: re.Match[str], generated: dict[str, str], candidate: str) -> str:
    name = found["file"].rsplit("/", 1)[-1]
    own = _own_line(generated.get(name, ""), int(found["line"]), candidate)
    column = f":{found['column']}" if found["column"] else ""
    where = f"{name}:{found['line']}{column}"
    return f"{where}{f' (candidate.py:{own})' if own else ''}: error: {found['what']}"


def _own_line(generated: str, line: int, candidate: str) -> int | None:
    """The candidate's line with the same text, if there is exactly one."""
    texts = generated.splitlines()
    if not 0 < line <= len(texts) or not texts[line - 1].strip():
        return None
    wanted = texts[line - 1].strip()
    found = [n for n, text in enumerate(candidate.splitlines(), 1) if text.strip() == wanted]
    return found[0] if len(found) == 1 else None


def _excerpt(following: list[str]) -> list[str]:
    """g++ and nvcc show the line and a caret below an error."""
    kept = []
    for line in following[:_CONTEXT_LINES]:
        if not line.startswith((" ", "\t")) or "note:" in line:
            break
        kept.append(line[:200])
    return kept


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
    lines = output.splitlines()
    for number, whole in enumerate(lines):
        found = _ERROR.search(whole)
        what = found["what"] if found else ""
        if not found or _certain(what, lines[number + 1 : number + 6]):
            continue
        if unknown := _UNDECLARED.search(what):
            macros.add(unknown["a"] or unknown["b"])
        elif missing := _NO_MEMBER.search(what):
            members.add(missing["a"] or missing["b"] or missing["c"])
        else:
            anyway = True
    linking = any(_LINK_ERROR.search(line) for line in output.splitlines())
    nothing = not macros and not members and not _ERROR.search(output)
    return Unexplained(frozenset(macros), frozenset(members), anyway or (nothing and not linking))


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
