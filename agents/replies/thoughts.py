"""What a model thought aloud, and what it answered. Pure."""

from __future__ import annotations

import re

import msgspec

__all__ = ["Answered", "answered"]

_NAME = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning)"
_TAG = re.compile(
    rf"(?P<open><\s*+{_NAME}\s*+>|\[THINK\]|◁think▷|<\|(?:begin_of_thought|START_THINKING)\|>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>)"
    rf"|(?P<close><\s*+/\s*+{_NAME}\s*+>|\[/THINK\]|◁/think▷|<\|(?:end_of_thought|END_THINKING)\|>)"
    r"|(?P<end><\|end\|>)"
    r"|(?P<final>(?:<\|start\|>assistant)?<\|channel\|>(?:final|commentary)"
    r"(?:\s++to=[\w.]++)?\s*+(?:<\|constrain\|>\s*+\w++\s*+)?<\|message\|>)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE)
_MAX_TAGS = 2_000


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """``text`` without the thoughts. ``unfinished``: it ends within one, which ``mark`` opened."""

    text: str
    unfinished: bool = False
    mark: str = ""


def answered(text: str) -> Answered:
    """The answer in a text, whichever way its thoughts are marked.

    A closing mark alone ends a thought that began with the text: its opening mark is part of
    many models' prompts. Marks within code, fenced or not, are code.
    """
    kept: list[str] = []
    begin = 0
    opened = ""
    fences = _Fences(text)
    for count, tag in enumerate(_TAG.finditer(text)):
        if count == _MAX_TAGS:
            break
        if opened:
            if tag["close"] or (tag["end"] and "channel" in opened) or tag["final"]:
                begin, opened = tag.end(), ""
                fences.begin(begin)
            continue
        if tag["end"]:
            continue
        if _is_code(text, tag, within=fences.within(tag.start())):
            continue
        if tag["open"]:
            kept.append(text[begin : tag.start()])
            opened = tag[0]
        elif tag["close"]:
            kept.clear()
            begin = tag.end()
            fences.begin(begin)
        else:
            kept.append(text[begin : tag.start()])
            begin = tag.end()
    if opened:
        return Answered(text="\n".join(kept), unfinished=True, mark=opened.strip())
    kept.append(text[begin:])
    return Answered(text=kept[0] if len(kept) == 1 else "\n".join(filter(str.strip, kept)))


def _is_code(text: str, tag: re.Match[str], *, within: bool) -> bool:
    """Whether a mark is part of code; one that closes a thought alone on its line is none."""
    if text[tag.start() - 1 : tag.start()] == "`":
        return True
    if not within:
        return False
    line_begin = text.rfind("\n", 0, tag.start()) + 1
    line_end = text.find("\n", tag.end())
    line = text[line_begin : line_end if line_end >= 0 else len(text)]
    return not tag["close"] or line.strip() != tag[0]


class _Fences:
    """Whether a place in a text is within a fenced block; places are asked for in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open = False

    def begin(self, at: int) -> None:
        """What lies before is none of the text any more."""
        self._at, self._open = at, False

    def within(self, at: int) -> bool:
        marks = sum(1 for _ in _FENCE.finditer(self._text, self._at, at))
        self._at = max(self._at, at)
        self._open ^= bool(marks % 2)
        return self._open
