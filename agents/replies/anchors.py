"""Anchors: the tags by which a plan marks where in a source its advice belongs.

A tag is ``<<<IMPROVE BEGIN>>>`` or ``<<<IMPROVE END>>>``, written as a comment of the
language it stands in. ``BEGINS`` and ``ENDS``, the paper's other spelling, are read too.
Only whole lines carry meaning here: an anchored span is a run of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

__all__ = ["BEGIN", "END", "Item", "Span", "anchored_spans", "balance", "has_anchors", "scan"]
__all__ += ["source_lines", "strip_anchors"]

BEGIN = "<<<IMPROVE BEGIN>>>"
END = "<<<IMPROVE END>>>"

_TAG = re.compile(r"<<<\s*IMPROVE[ \t_]+(BEGIN|END)S?\s*>>>", re.IGNORECASE)
# A closed C comment around nothing but a tag, and what a one-line comment leaves behind.
_C_COMMENT = re.compile(r"/\*[\s*=-]*" + _TAG.pattern + r"[\s*=-]*\*/", re.IGNORECASE)
_OPENER = re.compile(r"#|//")
_OPENERS = frozenset("#/*=- \t")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One step through an annotated source: a tag, or a line that is not blank.

    ``text`` is the line without its tags and trailing white space; ``line`` counts from
    1. ``indent`` and ``hash_style`` say how a tag was written.
    """

    kind: Literal["begin", "end", "line"]
    line: int
    text: str = ""
    indent: str = ""
    hash_style: bool = True


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The lines between two tags, first and last, counted from 1."""

    first: int
    last: int


def source_lines(source: str) -> list[str]:
    """Lines without trailing white space, whatever the line ends are."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    return [line.rstrip() for line in text.split("\n")]


def has_anchors(source: str) -> bool:
    """Whether any tag occurs."""
    return _TAG.search(source) is not None


def scan(source: str) -> list[Item]:
    """The tags and the lines that are not blank, in order.

    A tag on a line of code takes that line into its span: a begin comes before it, and
    an end after it unless the tag stands in front of the code.
    """
    items: list[Item] = []
    for number, line in enumerate(source_lines(source), 1):
        if _TAG.search(line) is None:
            if line:
                items.append(Item(kind="line", line=number, text=line))
        else:
            items.extend(_split(number, line))
    return items


def _split(number: int, line: str) -> Iterable[Item]:
    tags = list(_TAG.finditer(line))
    rest = _without_tags(line)
    indent = line[: len(line) - len(line.lstrip())]
    hash_style = "#" in line[: tags[0].start()]
    code = [Item(kind="line", line=number, text=rest)] if rest else []
    before: list[Item] = []
    after: list[Item] = []
    is_comment = rest.lstrip().startswith(("#", "//", "/*", "*/"))
    for tag in tags:
        begins = tag[1].upper() == "BEGIN"
        item = Item(
            kind="begin" if begins else "end", line=number, indent=indent, hash_style=hash_style
        )
        leads = _OPENERS.issuperset(_TAG.sub("", line[: tag.start()]))
        goes_before = begins or not rest or (leads and not is_comment)
        (before if goes_before else after).append(item)
    return [*before, *code, *after]


def _without_tags(line: str) -> str:
    """The line without its tags, and without comments that held nothing else."""
    indent = line[: len(line) - len(line.lstrip())]
    text = _TAG.sub("", _C_COMMENT.sub("", line))
    text = _without_empty_tail(text).strip()
    return "" if text in ("", "*") else indent + text


def _without_empty_tail(text: str) -> str:
    """Without a one-line comment that says nothing. No regular expression: on a long line
    it would begin anew at every character."""
    end = len(text)
    while end and (text[end - 1] in "#/*=-" or text[end - 1].isspace()):
        end -= 1
    opened = _OPENER.search(text, end)
    return text[: opened.start()] if opened else text


def balance(items: Iterable[Item]) -> str | None:
    """What is wrong with the tags, in a sentence for the agent; None if nothing is."""
    opened: int | None = None
    spans = 0
    filled = False
    for item in items:
        if item.kind == "line":
            filled = True
        elif item.kind == "begin":
            if opened is not None:
                return (
                    f"{BEGIN} on line {item.line} is nested in the block that was opened on "
                    f"line {opened}: blocks must not be nested."
                )
            opened, filled = item.line, False
        else:
            if opened is None:
                return f"{END} on line {item.line} has no {BEGIN} before it."
            if not filled:
                return f"The block marked on line {opened} is empty: mark the code to be changed."
            opened, spans = None, spans + 1
    if opened is not None:
        return f"{BEGIN} on line {opened} has no {END} behind it."
    if not spans:
        return f"The source holds no marked block: put {BEGIN} and {END} around one."
    return None


def anchored_spans(annotated: str) -> tuple[Span, ...]:
    """The marked blocks as line ranges of ``annotated``; none if the tags don't balance."""
    items = scan(annotated)
    if balance(items) is not None:
        return ()
    spans: list[Span] = []
    inside: list[int] | None = None
    for item in items:
        if item.kind == "begin":
            inside = []
        elif item.kind == "end":
            assert inside is not None
            spans.append(Span(first=inside[0], last=inside[-1]))
            inside = None
        elif inside is not None:
            inside.append(item.line)
    return tuple(spans)


def strip_anchors(source: str) -> str:
    """The source without tags and the comments that only held them; other text is kept."""
    if not has_anchors(source):
        return source
    kept: list[str] = []
    for line in source.split("\n"):
        if _TAG.search(line) is None:
            kept.append(line)
        elif rest := _without_tags(line):
            kept.append(rest)
    return "\n".join(kept)
