"""Compiler output, cut to its errors at the candidate's lines. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpu_sandbox.toolchain.identity import HEADERS
from gpu_sandbox.toolchain.source_map import Origin

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
"""Errors of linker, assembler and drivers, which see no source."""
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
    r"|[‘'](?P<c>\w+)[’'] (?:does not name a (?:template )?type"
    r"|is not a (?:template|type|class, namespace, or enumeration))"
)
_NO_MEMBER = re.compile(
    r"[‘'](?P<a>\w+)[’'] is not a (?:template )?member of"
    r"|namespace \"[^\"]*\" has no member \"(?P<b>\w+)\""
    r"|[‘'][\w:]+::(?P<c>\w+)[’'] has not been declared"
    r"|[‘'](?P<d>\w+)[’'] in namespace [‘'][\w:]+[’'] does not name a"
)
_INCOMPLETE = re.compile(r"\bincomplete\b|\bslim_binding\b")
_PARTIAL = re.compile(
    r"\bI(?:Opt)?(?:Tensor)?ListRef\b|\bTensorIndex\b|at::Tensor::index\b|incomplete"
)
"""Types that the slim headers declare and do not define, or define for some sources only."""
_OPERATOR = re.compile(r"no match for [‘']operator|no operator \"")
_QUALIFIED = re.compile(
    r"name followed by \"::\"|is not a template|not a class or "
    r"|expected (?:template-name|class-name|type-specifier)"
)
_OF_NAMESPACE = re.compile(r"\b(?:torch|at|c10|caffe2|py|pybind11|std)\s*::")
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
_MAX_READ = 1000  # characters of a line that are read
_FOLLOWING = 60  # lines below an error that may belong to it


class _Error(NamedTuple):
    """``message`` is one line; ``below`` what goes with it: excerpt, reasons, instantiations."""

    message: str
    below: tuple[str, ...] = ()


def cut_compiler_output(output: str, generated: dict[str, str], candidate: str) -> str:
    """The first errors, each once, at the candidate's own line and with its excerpt.

    ``generated`` holds the files that torch wrote out of the candidate's strings. An error in
    another's header is reported at the candidate's line that needed it.
    """
    errors = _errors(_lines(output), Origin(generated, candidate))
    found = list(
        {error.message.partition(" (in ")[0]: error for error in reversed([*errors])}.values()
    )
    found.reverse()
    if len(found) > 1:
        found = [error for error in found if not _AFTERMATH.search(error.message)] or found[:1]
    if not found:
        lines = [line for line in output.splitlines() if line and "FAILED: " not in line]
        return "\n".join(line[:_MAX_LINE] for line in lines[-20:])
    lines = [line for error in found[:_MAX_ERRORS] for line in (error.message, *error.below)]
    if len(found) > _MAX_ERRORS:
        lines.append(f"… {len(found) - _MAX_ERRORS} more errors")
    return "\n".join(line[:_MAX_LINE] for line in lines)[:_MAX_CHARS]


def first_error(cut: str) -> str:
    return next((line for line in cut.splitlines() if line.strip()), "")[:300]


def _lines(output: str) -> list[str]:
    return [line[:_MAX_READ] for line in output.splitlines()]


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


def _tool_error(message: str, origin: Origin) -> _Error:
    if found := _PTX.match(message):
        message = f"ptxas error: {found[2]} (line {found[1]} of the PTX)"
    named = origin.naming(message)
    return _Error(f"candidate.py:{named}: {message}" if named is not None else message)


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
    """Names that the slim headers may lack: plain ones (macros, functions), members of namespaces.

    ``anyway``: an error that torch's own headers may cure, whatever names they know.
    """

    macros: frozenset[str]
    members: frozenset[str]
    anyway: bool


def unexplained(output: str) -> Unexplained:
    """What torch's own headers might cure of a failed slim build; nothing, if it fails anyway.

    Other headers cure an error in the candidate's text only if it is about a name, type or operator
    that they declare. One other error is enough, unless a curable one before it may have caused it.
    """
    macros: set[str] = set()
    members: set[str] = set()
    anyway = doubtful = False
    lines = _lines(output)
    for number, whole in enumerate(lines):
        if "FAILED: " in whole:  # the next command's errors have no cause yet
            doubtful = False
        found = _ERROR.search(whole)
        if not found:
            continue
        cure = _cure(found, lines[number + 1 : number + 1 + _FOLLOWING])
        if cure is None:
            if _is_own(found["file"]) and not doubtful:
                return Unexplained(frozenset(), frozenset(), False)
            continue
        doubtful = True
        anyway = anyway or not cure.name
        if cure.name:
            (members if cure.member else macros).add(cure.name)
    linking = any(_TOOL.search(line) for line in lines)
    nothing = not macros and not members and not any(_ERROR.search(line) for line in lines)
    return Unexplained(frozenset(macros), frozenset(members), anyway or (nothing and not linking))


def _is_own(file: str) -> bool:
    """Whether it is the candidate's text, and no header of torch, of the system or of ours."""
    return not any(part in file for part in ("/include/", f"{HEADERS}/"))


class _Cure(NamedTuple):
    """What other headers would have to declare; no ``name``: something that is not named."""

    name: str = ""
    member: bool = False


def _cure(found: re.Match[str], following: list[str]) -> _Cure | None:
    """None where other headers can't help."""
    what, own = found["what"], _is_own(found["file"])
    excerpt = "\n".join(following[:2])
    if _NO_TENSOR_MEMBER.search(what) or _kernels_own(found, following):
        return None
    if unknown := _UNDECLARED.search(what):
        return _Cure(next(filter(None, unknown.groups())))
    if missing := _NO_MEMBER.search(what):
        return _Cure(next(filter(None, missing.groups())), member=True)
    if _INCOMPLETE.search(what):
        helps = True
    elif _QUALIFIED.search(what):
        helps = not own or _OF_NAMESPACE.search(excerpt) is not None
    elif _SYNTAX.match(what) or (own and what.startswith("expected ")):
        helps = _MACRO_OF_TORCH.search(excerpt) is not None
    elif _MISMATCH.search(what):
        helps = _of_torch(found, following)
    else:
        helps = not own
    return _Cure() if helps else None


def _kernels_own(found: re.Match[str], following: list[str]) -> bool:
    """Whether it is about device code, a launch, or something said twice or asserted."""
    what = found["what"]
    if _ARGUMENTS.search(what):
        return "<<<" in "".join(following[:1])
    if _OWN_DOING.search(what):
        return found["file"].endswith(_GENERATED)
    return _OF_CUDA.search(what) is not None


def _of_torch(found: re.Match[str], following: list[str]) -> bool:
    """Whether types that don't match are torch's, and other headers may know more of them."""
    what = found["what"]
    below = [line for line in following[:5] if "types are" in line]
    spelled = "\n".join([what, *below])
    typed = _TYPES.search(spelled.split("operator", 1)[0]) or "types are" in spelled
    if typed and not _OF_TORCH.search(spelled):
        return False
    if not _is_own(found["file"]) or _PARTIAL.search("\n".join([what, *_notes(following)])):
        return True
    return _OPERATOR.search(what) is not None and "at::Tensor*" not in spelled.replace(" *", "*")


def _notes(following: list[str]) -> list[str]:
    """The notes of one error."""
    rest = itertools.takewhile(lambda line: not _ERROR.search(line), following)
    return [line for line in rest if "note:" in line]
