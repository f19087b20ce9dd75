"""A client that answers out of a file: for the demo and for tests, labelled as canned.

Real timings steer the search, so replies are keyed by what the search asks, never by
order: by role, by the selected source's label, and by the visit to it. An entry without
``visit`` is the default for visits that are not listed; ``on = "*"`` serves any source.

    title = "…"; language = "cpp"; task = "softmax.py"     # files are relative to this one
    [kernels]
    naive = "softmax_cpp/naive.py"
    [[plan]]
    on = "root"          # the task's own source, or any source that is none of the kernels
    advice = "…"; begin = "text in the span's first line"; end = "… in its last line"
    inside = "python"    # comment syntax at the anchors; "cpp" inside C++ strings
    [[code]]
    on = "root"; visit = 0; kernel = "naive"; explanation = "…"
    [[spans]]            # instead, where the coder is asked for replacements only
    on = "root"; replacements = ["…"]; definitions = [{code = "…", before = "a line"}]
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio.lowlevel
import msgspec

from agents.clients.port import CallFailed, Reply, Request
from agents.python_source import tree_of
from agents.replies.anchors import BEGIN, END, source_lines
from agents.replies.grounding import Rejected, ground
from agents.replies.normal_form import source_key
from agents.replies.splicing import Definition, Spans
from events.bodies import Usage

__all__ = ["PlaybookClient", "PlaybookInvalid"]

ROOT, ANY = "root", "*"


class PlaybookInvalid(ValueError):
    """A playbook that can't be used; the message names the file and the entry."""


class _Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    on: str
    advice: str
    visit: int | None = None
    begin: str | None = None
    end: str | None = None
    inside: Literal["python", "cpp"] = "python"


class _Code(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    on: str
    kernel: str
    visit: int | None = None
    explanation: str = ""


class _Spans(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    on: str
    replacements: list[str]
    definitions: list[Definition] = []
    visit: int | None = None
    explanation: str = ""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: str
    title: str = ""
    language: str = ""
    kernels: dict[str, str] = {}
    plan: list[_Plan] = []
    code: list[_Code] = []
    spans: list[_Spans] = []
    debug: list[_Code] = []
    single: list[_Code] = []


_Entry: TypeAlias = _Plan | _Code | _Spans


class PlaybookClient:
    """Replies from the playbook at ``path``, which is read and checked at once.

    Raises ``PlaybookInvalid`` for a file that doesn't hold together.
    """

    canned = True

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file = _load(self._path)
        self._task = self._source(self._file.task, "task")
        self._kernels = {
            label: self._source(name, f"kernel {label!r}")
            for label, name in self._file.kernels.items()
        }
        self._labels: dict[str, str] = {}
        for label, source in self._kernels.items():
            if label in (ROOT, ANY):
                raise self._invalid(f"kernel {label!r}", "this name is reserved")
            twin = self._labels.setdefault(source_key(source), label)
            if twin != label:
                raise self._invalid(f"kernel {label!r}", f"has the same source as {twin!r}")
        self._entries: dict[tuple[str, str, int | None], _Entry] = {}
        for role in ("plan", "code", "spans", "debug", "single"):
            for number, entry in enumerate(getattr(self._file, role), 1):
                self._add(role, entry, f"[[{role}]] entry {number}")

    def __repr__(self) -> str:
        return f"PlaybookClient({str(self._path)!r})"

    @property
    def title(self) -> str:
        return self._file.title

    @property
    def language(self) -> str:
        """The kernels' language, or "" where the file doesn't say."""
        return self._file.language

    @property
    def task_path(self) -> Path:
        return self._path.parent / self._file.task

    async def send(self, request: Request) -> Reply:
        """The entry for the request's role, source and visit; a re-ask gets the same."""
        await anyio.lowlevel.checkpoint()
        label = self._labels.get(source_key(request.node_source), ROOT)
        role = "spans" if request.tool.name == "spans" else request.role
        entry = self._find(role, label, request.visit)
        if entry is None:
            raise CallFailed(
                "no_reply",
                f"{self._path} has no reply for role {role!r} on {label!r} "
                f"(visit {request.visit}): add a [[{role}]] entry, or one with "
                'on = "*"',
                retryable=False,
            )
        if isinstance(entry, _Plan):
            annotated = _annotate(entry, request.node_source)
            if isinstance(annotated, Rejected):
                raise CallFailed(
                    "no_reply",
                    f"{self._path}: the plan on {entry.on!r} does not fit the selected source: "
                    f"{annotated.reason}",
                    retryable=False,
                )
            text = entry.advice.strip()
            answer = {"advice": text, "annotated_source": annotated}
        elif isinstance(entry, _Spans):
            text = entry.explanation
            answer = msgspec.to_builtins(Spans(
                replacements=entry.replacements, definitions=entry.definitions
            ))  # fmt: skip
            answer["explanation"] = text
        else:
            text = entry.explanation
            answer = {"explanation": text, "source": self._kernels[entry.kernel]}
        return Reply(
            text=text,
            tool_input=answer,
            usage=Usage(),
            stop_reason="tool_use",
            served_by="playbook",
            sent={},
            canned=True,
        )

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _find(self, role: str, label: str, visit: int) -> _Entry | None:
        for on in (label, ANY):
            for key in ((role, on, visit), (role, on, None)):
                if key in self._entries:
                    return self._entries[key]
        return None

    def _add(self, role: str, entry: _Entry, where: str) -> None:
        known = [ROOT, ANY, *self._kernels]
        where = f"{where} (on = {entry.on!r})"
        if entry.on not in known:
            raise self._invalid(where, f"unknown label; the labels are {', '.join(known)}")
        key = (role, entry.on, entry.visit)
        if key in self._entries:
            raise self._invalid(where, "another entry has the same `on` and `visit`")
        if isinstance(entry, _Code) and entry.kernel not in self._kernels:
            known = list(self._kernels)
            raise self._invalid(
                where, f"unknown kernel {entry.kernel!r}; the kernels are {', '.join(known)}"
            )
        if isinstance(entry, _Plan) and entry.on != ANY:
            annotated = _annotate(entry, self._kernels.get(entry.on, self._task))
            if isinstance(annotated, Rejected):
                raise self._invalid(where, annotated.reason)
        self._entries[key] = entry

    def _source(self, name: str, what: str) -> str:
        try:
            return (self._path.parent / name).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise self._invalid(what, f"can't read {name!r}: {error}") from None

    def _invalid(self, where: str, problem: str) -> PlaybookInvalid:
        return PlaybookInvalid(f"{self._path}: {where}: {problem}")


def _load(path: Path) -> _File:
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(data, _File)
    except OSError as error:
        raise PlaybookInvalid(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise PlaybookInvalid(f"{path}: is not UTF-8: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise PlaybookInvalid(f"{path}: is not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise PlaybookInvalid(f"{path}: {error}") from None


def _annotate(plan: _Plan, source: str) -> str | Rejected:
    """The source with the plan's anchors and advice in it, as an agent would return it."""
    lines = source_lines(source)
    span = _forward_body(source) if plan.begin is None else _span(plan, lines)
    if isinstance(span, Rejected):
        return span
    first, last = span
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    advice = plan.advice.strip().splitlines()
    if plan.inside == "cpp":
        before = [f"/* {BEGIN} */", *(f"// {line}".rstrip(" \\") for line in advice)]
        after = f"/* {END} */"
    else:
        before = [f"# {BEGIN}", *(f"# {line}".rstrip() for line in advice)]
        after = f"# {END}"
    marked = [indent + line for line in before] + lines[first : last + 1] + [indent + after]
    annotated = "\n".join(lines[:first] + marked + lines[last + 1 :])
    grounded = ground(annotated, source, splice=False)
    return grounded if isinstance(grounded, Rejected) else annotated


def _span(plan: _Plan, lines: list[str]) -> tuple[int, int] | Rejected:
    begin, end = plan.begin or "", plan.end or plan.begin or ""
    first = next((row for row, line in enumerate(lines) if begin in line), None)
    if first is None:
        return Rejected(reason=f"begin = {begin!r} is not found in the source")
    last = next((row for row in range(first, len(lines)) if end in lines[row]), None)
    if last is None:
        return Rejected(reason=f"end = {end!r} is not found at or after begin")
    return first, last


def _forward_body(source: str) -> tuple[int, int] | Rejected:
    """The rows, from 0, of the body of the last ``def forward``."""
    tree = tree_of(source)
    if tree is None:
        return Rejected(reason="the source is not Python, and the plan names no begin")
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]
    if not found:
        return Rejected(reason="the source has no `def forward`, and the plan names no begin")
    forward = max(found, key=lambda node: node.lineno)
    last = forward.body[-1].end_lineno or forward.lineno
    return forward.body[0].lineno - 1, last - 1
