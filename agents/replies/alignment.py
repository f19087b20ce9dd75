"""Aligning what an agent returned with the source that it was to mark.

The returned text is read as the original's lines, tags, and added comments; which comments
are valid depends on where a line stands, in Python or in a string that holds C++.
"""

from __future__ import annotations

import re

import msgspec

from agents.python_source import rows_in_strings
from agents.replies.anchors import Item

__all__ = ["Alignment", "Mismatch", "Original", "Step", "TooManyReadings", "align", "comment"]

_MOST_READINGS = 300_000
"""Of one reply: an honest one takes a few thousand, and 100 000 take a third of a second."""

_DIRECTIVE = re.compile(
    r"#\s*(define|undef|include|if|ifdef|ifndef|elif|else|endif|pragma|error|warning|line)\b"
)


class TooManyReadings(Exception):
    """Lines that repeat themselves can be aligned in more ways than there is time for."""


class Original:
    """The selected node's source: its lines that count, and where they stand. Counts how often
    it was looked at, too."""

    def __init__(self, source: str) -> None:
        text = source.replace("\r\n", "\n").replace("\r", "\n")
        self.raw = text.split("\n")
        rows = [(row, line.rstrip()) for row, line in enumerate(self.raw) if line.strip()]
        self.rows = [row for row, _ in rows] + [len(self.raw)]
        self.lines = [line for _, line in rows]
        self._in_string = rows_in_strings(text)
        self._readings = 0

    def count_reading(self) -> None:
        """Raises ``TooManyReadings``."""
        self._readings += 1
        if self._readings > _MOST_READINGS:
            raise TooManyReadings

    def in_string(self, index: int) -> bool | None:
        """Whether the gap before line ``index`` is in a string; None if that is unknown."""
        return None if self._in_string is None else self.rows[index] in self._in_string


class _State(msgspec.Struct, frozen=True):
    """How far an alignment is: the next line of the original; inside an added comment?"""

    index: int
    block: bool = False


class Step(msgspec.Struct, frozen=True):
    """How an item was read, from which state."""

    before: _State
    matched: bool


class Alignment(msgspec.Struct, frozen=True):
    """From which line of the original to which, and how each item was read."""

    start: int
    end: int
    steps: tuple[Step, ...]


class Mismatch(msgspec.Struct, frozen=True):
    """Where every alignment ended: at which item, expecting which line of the original."""

    item: int
    index: int


def align(
    items: list[Item], original: Original, *, start: int, to_end: bool
) -> Alignment | Mismatch:
    """Read the items as the original's lines from ``start`` on, tags, and added comments.

    All readings are followed at once (an added comment may equal a line of the original),
    which stays linear because almost every item has one reading. Raises ``TooManyReadings``
    where it does not.
    """
    layers: list[dict[_State, Step]] = []
    states = {_State(start): Step(_State(start), False)}
    inside = False
    for number, item in enumerate(items):
        layer: dict[_State, Step] = {}
        for state in states:
            original.count_reading()
            for after, matched in _readings(item, state, original, inside=inside):
                layer.setdefault(after, Step(state, matched))
        if not layer:
            return Mismatch(number, max(state.index for state in states))
        inside = item.kind == "begin" or (inside and item.kind == "line")
        layers.append(layer)
        states = layer
    ends = [state for state in states if not state.block]
    if to_end:
        ends = [state for state in ends if state.index == len(original.lines)]
    if not ends:
        return Mismatch(len(items), max(state.index for state in states))
    end = max(ends, key=lambda state: state.index)
    steps: list[Step] = []
    state = end
    for layer in reversed(layers):
        steps.append(layer[state])
        state = layer[state].before
    return Alignment(start, end.index, tuple(reversed(steps)))


def _readings(
    item: Item, state: _State, original: Original, *, inside: bool
) -> list[tuple[_State, bool]]:
    """The states that one item can lead to, and whether it matched the original there."""
    if item.kind != "line":
        return [] if state.block else [(state, False)]
    if state.block:
        _, closed, tail = item.text.partition("*/")
        return [] if tail.strip() else [(_State(state.index, not closed), False)]
    readings: list[tuple[_State, bool]] = []
    in_string = original.in_string(state.index)
    if state.index < len(original.lines):
        expected = original.lines[state.index]
        # What follows a string's closing quotes is Python again, hence the next gap.
        tail_in_string = original.in_string(state.index + 1)
        if item.text == expected or (
            inside
            and item.text.startswith(expected)
            and _is_tail(item.text[len(expected) :].strip(), tail_in_string)
        ):
            readings.append((_State(state.index + 1), True))
    if inside:
        block = comment(item.text.strip(), in_string)
        if block is not None:
            readings.append((_State(state.index, block), False))
    return readings


def comment(text: str, in_string: bool | None) -> bool | None:
    """None if ``text`` is no comment there, else whether it leaves a ``/*`` open."""
    if text.startswith("#"):
        return None if in_string is not False and _DIRECTIVE.match(text) else False
    if in_string is False:
        return None
    if text.startswith("//"):
        return False
    if text.startswith("/*"):
        _, closed, tail = text[2:].partition("*/")
        return None if tail.strip() else not closed
    return None


def _is_tail(text: str, in_string: bool | None) -> bool:
    """Whether ``text`` is a whole comment behind code. Stricter than for whole lines: ``#``
    is an operator in C++ macros, and ``//`` is one in Python."""
    if in_string is None or text.startswith("#") is in_string:
        return False
    return comment(text, in_string) is False
