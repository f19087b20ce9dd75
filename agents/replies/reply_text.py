"""A reply's text: what of it is code, and what is prose. Pure."""

from __future__ import annotations

import re

import msgspec

__all__ = ["Fence", "answered", "clean", "closed", "code_block", "fences", "outside", "unfenced"]

_OPEN = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^`]*+$")
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """A fenced code block. ``closed`` is false where the text ended first."""

    text: str
    closed: bool


def answered(text: str) -> str:
    """The text behind what a model thought aloud."""
    return _THOUGHT.sub("", clean(text), count=1)


def clean(text: str) -> str:
    """Unix line ends, and nothing that UTF-8 can't hold (half of a surrogate pair)."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode("utf-8")


def unfenced(text: str) -> str:
    """Code out of a tool field, also when the agent put a fence around it."""
    stripped = text.strip()
    if stripped.startswith(("```", "~~~")):
        blocks = fences(stripped)
        if len(blocks) == 1:
            return blocks[0].text
    return text


def code_block(code: str) -> str:
    """``code`` as a block that nothing in it closes."""
    longest = max(map(len, re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{code.removesuffix(chr(10))}\n{fence}\n"


def closed(text: str) -> str:
    """``text`` with its last block closed where it isn't: what comes behind it is none of it."""
    *_, (fence, _, whole) = _segments(text)
    return text if whole else f"{text}\n{fence}"


def fences(text: str) -> list[Fence]:
    """The fenced code blocks of a Markdown text, in order; the last may be unclosed."""
    return [Fence(text=body, closed=whole) for fence, body, whole in _segments(text) if fence]


def outside(text: str) -> str:
    """The text without its fenced blocks."""
    return "\n".join(body for fence, body, _ in _segments(text) if not fence).strip()


def _segments(text: str) -> list[tuple[str, str, bool]]:
    """(what opened it, text, closed) in order; nothing opened what is no code."""
    segments: list[tuple[str, str, bool]] = []
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if not fence and (opening := _OPEN.match(line)):
            segments.append(("", "\n".join(lines), True))
            fence, lines = opening[1], []
        elif fence and _closes(line, fence):
            segments.append((fence, "\n".join([*lines, ""]), True))
            fence, lines = "", []
        else:
            lines.append(line)
    segments.append((fence, "\n".join(lines), not fence))
    return segments


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]} and len(line) - len(mark) < 4
