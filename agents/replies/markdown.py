"""Fenced code in Markdown: as CommonMark has it, and as models mean it. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import islice

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agents.python_source import syntax_error

__all__ = [
    "Fence", "Reading", "closed", "code_block", "fences", "flush_left", "meant", "outside",
    "strict", "unfenced",
]  # fmt: skip

_MARKS = ("```", "~~~")
_MAX_LINES = 50_000  # of a text that is read as Markdown: far above any reply, and still seconds
_MAX_ENDS = 8  # of places where a block may end, of which each is tried as Python
_MAX_TRIED = 2**19  # characters that are tried as Python, of one reply: some two seconds
_EACH_TRIED = 200  # of these, at least, for each trial
_OPEN = re.compile(r"^(?P<before>[^`~]*?)(?P<mark>`{3,}+|~{3,}+)(?P<info>[^`\n]*+)$")
_PYTHON = re.compile(r"\s*(?:python3?|py3?|triton|cuda)?\s*", re.IGNORECASE)
"""Words behind a fence that opens a block with a candidate."""


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """A fenced code block. ``closed`` is false where the text, or what the block stands in, such
    as an item of a list, ended first."""

    text: str
    closed: bool


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of a text in order, and the text without them."""

    blocks: tuple[Fence, ...]
    prose: str


def fences(text: str) -> tuple[Fence, ...]:
    """The fenced code blocks, by CommonMark."""
    return strict(text).blocks


def outside(text: str) -> str:
    """The text without its fenced blocks, by CommonMark."""
    return strict(text).prose


def strict(text: str) -> Reading:
    """What CommonMark reads."""
    rows = text.split("\n")
    blocks: list[Fence] = []
    prose: list[str] = []
    row = 0
    for token in _tokens(text):
        first, end = token.map or (0, 0)
        prose += rows[row:first]
        row = end
        blocks.append(Fence(text=token.content, closed=_is_closed(token)))
    return Reading(blocks=tuple(blocks), prose="\n".join([*prose, *rows[row:]]).strip())


def meant(text: str) -> Reading:
    """What a model most likely meant, line by line.

    A block may be indented in any way, begin behind prose, and end behind code or before prose
    on the same line. Of several ends the first is taken at which the block is Python: a fence in
    a docstring ends nothing.
    """
    rows = text.split("\n")[:_MAX_LINES]
    blocks: list[Fence] = []
    prose: list[str] = []
    trials = _Trials()
    row = 0
    while row < len(rows):
        opening = _OPEN.match(rows[row])
        if opening is None or not _opens(opening):
            prose.append(rows[row])
            row += 1
            continue
        block, row = _block(rows, row + 1, opening, trials)
        blocks.append(block)
        if not _is_marker(opening["before"]):
            prose.append(opening["before"])
    return Reading(blocks=tuple(blocks), prose="\n".join(prose).strip())


def closed(text: str) -> str:
    """``text`` with its last block closed where it isn't: what comes behind it is none of it."""
    for token in _tokens(text):
        if not token.level and not _is_closed(token):
            return f"{text}\n{token.markup}"
    return text


def unfenced(text: str) -> str:
    """Code out of a tool's field, also when the agent put a fence around it."""
    stripped = text.strip()
    if stripped.startswith(_MARKS):
        blocks = fences(stripped)
        if len(blocks) == 1:
            return blocks[0].text
    return text


def code_block(code: str) -> str:
    """``code`` as a block that nothing in it closes."""
    longest = max(map(len, re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{code.removesuffix(chr(10))}\n{fence}\n"


def _is_closed(token: Token) -> bool:
    first, end = token.map or (0, 0)
    content = token.content
    lines = content.count("\n") + (content != "" and not content.endswith("\n"))
    return end - first - 1 > lines


def _tokens(text: str) -> Iterator[Token]:
    if not any(mark in text for mark in _MARKS) or text.count("\n") > _MAX_LINES:
        return
    yield from (token for token in _parser().parse(text) if token.type == "fence")


@cache
def _parser() -> MarkdownIt:
    """Blocks only, and of these what a fence can stand in, or be part of. Few levels: what lies
    deeper would take seconds, and holds no answer."""
    parser = MarkdownIt("zero", {"maxNesting": 8})
    parser.core.ruler.enableOnly(["block"])
    parser.block.ruler.enableOnly(["code", "fence", "blockquote", "list", "paragraph"])
    return parser


def _is_marker(before: str) -> bool:
    """Whether nothing but blanks, or a list's or a quote's mark, stands before a fence."""
    return not before.strip(" \t>-*+.)0123456789")


def _opens(opening: re.Match[str]) -> bool:
    """Behind prose only a fence that names Python, or nothing, opens a block."""
    return _is_marker(opening["before"]) or _PYTHON.fullmatch(opening["info"]) is not None


def _block(
    rows: list[str], first: int, opening: re.Match[str], trials: _Trials
) -> tuple[Fence, int]:
    """The block whose first line is ``first``, and the row behind it."""
    mark, before = opening["mark"], opening["before"]
    indent = len(before) if _is_marker(before) else 0
    may_be_python = _PYTHON.fullmatch(opening["info"]) is not None
    found: tuple[Fence, int] | None = None
    for end, last in islice(_ends(rows, first, mark), _MAX_ENDS):
        lines = [*rows[first:end], *last]
        code = trials.python_in(lines, indent) if may_be_python else None
        if code is not None:
            return Fence(text=code, closed=True), end + 1
        found = found or (Fence(text=_less(lines, indent), closed=True), end + 1)
    if found is not None:
        return found
    code = trials.python_in(rows[first:], indent) if may_be_python else None
    return Fence(text=code or _less(rows[first:], indent), closed=False), len(rows)


def _ends(rows: list[str], first: int, mark: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that may close a block, and the code that stands before the fence there."""
    for number in range(first, len(rows)):
        line = rows[number].strip()
        if line.startswith(mark):
            behind = line.lstrip(mark[0])
            if not behind or behind[0].isspace():
                yield number, []
        elif line.endswith(mark):
            yield number, [rows[number].rstrip()[: -len(mark)].rstrip()]


def flush_left(code: str) -> str:
    """``code`` without the indentation that all of it has, where it is Python only then."""
    if not code[:1].isspace() or syntax_error(code) is None:
        return code
    dedented = textwrap.dedent(code)
    return dedented if syntax_error(dedented) is None else code


class _Trials:
    """Reads lines as Python, as long as that takes a moment all in all."""

    def __init__(self) -> None:
        self._left = _MAX_TRIED

    def python_in(self, lines: list[str], indent: int) -> str | None:
        """The code in a block's lines; None where they are no Python, however indented."""
        for code in _variants(lines, indent):
            self._left -= len(code) + _EACH_TRIED
            if self._left < 0:
                return None
            if syntax_error(code) is None:
                return code
        return None


def _variants(lines: list[str], indent: int) -> list[str]:
    """A block's text: without the indentation of its fence, as it is, and without its own. Where
    a line stands further left than its fence, most likely all are as they are meant."""
    text = "\n".join([*lines, ""])
    if any(line.strip() and line[:indent].strip() for line in lines):
        variants = [text, textwrap.dedent(text), _less(lines, indent)]
    else:
        variants = [_less(lines, indent), text, textwrap.dedent(text)]
    return list(dict.fromkeys(variants))


def _less(lines: list[str], indent: int) -> str:
    """The lines without up to ``indent`` of their leading blanks."""
    less = [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines]
    return "\n".join([*less, ""])
