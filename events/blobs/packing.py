"""How a text is packed: whole, or as what sets it apart from one earlier text like it.

A search writes one kernel many times: as the reply, its source, its annotated source, a
part of the next prompts; and the next kernel resembles it. Deflate can be given such a text
as a dictionary to point into. What is pointed into is always stored whole, never as a
difference itself: reading takes two texts at most, and a damaged text takes along only those
that name it.
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict

import msgspec

__all__ = ["Packed", "Packer", "unpacked"]

_SHORTEST = 64
"""Bytes; what is shorter does not shrink."""
_BASE_BYTES = range(256, 64 << 10)
"""A shorter text has little to point into, and deflate sees 32 KiB of a longer one."""
_REACH = 32 << 10
_BASES = 64
"""Texts to compare with, the least recently used left out first."""
_WORTH = 10
"""A difference is a tenth of its text at most. Higher, and texts drift away from their base
until each difference is large; lower, and more texts are stored whole. Measured at 5 to 16:
docs/results/2026-11-21-log.md."""
_LEVEL = 9
_LINE = re.compile(rb"\n|\\n")
"""Also as JSON has it: a tool's input holds the source as a string."""
_LINE_BYTES = 6


class Packed(msgspec.Struct, frozen=True):
    """``base`` is the number of the text that ``data`` points into, None when it stands alone."""

    codec: str
    data: bytes
    base: int | None = None


class _Base(msgspec.Struct, frozen=True):
    lines: frozenset[bytes]
    content: bytes


class Packer:
    """Remembers the texts that this process has stored whole, to compare later ones with."""

    def __init__(self) -> None:
        self._bases: OrderedDict[int, _Base] = OrderedDict()

    def pack(self, content: bytes) -> Packed:
        if len(content) < _SHORTEST:
            return Packed("raw", content)
        number = self._like(content)
        if number is not None:
            difference = _deflated(content, self._bases[number].content)
            enough = len(content) // _WORTH if len(content) in _BASE_BYTES else len(content) - 1
            if len(difference) <= enough:
                self._bases.move_to_end(number)
                return Packed("zlib", difference, number)
        whole = _deflated(content)
        return Packed("zlib", whole) if len(whole) < len(content) else Packed("raw", content)

    def stored(self, number: int, content: bytes) -> None:
        """The text was stored whole: later ones may point into it."""
        if len(content) in _BASE_BYTES:
            self._bases[number] = _Base(_lines(content), content)
            if len(self._bases) > _BASES:
                self._bases.popitem(last=False)

    def _like(self, content: bytes) -> int | None:
        """The base with most lines in common, of several the one used last. None: there is no
        base, or the text is too long to look for one."""
        if not self._bases or len(content) >= _BASE_BYTES.stop:
            return None
        lines = _lines(content)
        return max(reversed(self._bases), key=lambda number: len(self._bases[number].lines & lines))


def unpacked(codec: str, data: bytes, base: bytes | None) -> bytes:
    """The text, with the content of its base if it has one. Raises ``ValueError``."""
    if codec == "raw":
        return data
    if codec != "zlib":
        raise ValueError(f"no codec {codec!r}")
    try:
        reading = zlib.decompressobj() if base is None else zlib.decompressobj(zdict=base[-_REACH:])
        content = reading.decompress(data) + reading.flush()
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not reading.eof:
        raise ValueError("incomplete")
    return content


def _deflated(content: bytes, base: bytes | None = None) -> bytes:
    writing = (
        zlib.compressobj(_LEVEL) if base is None else zlib.compressobj(_LEVEL, zdict=base[-_REACH:])
    )
    return writing.compress(content) + writing.flush()


def _lines(content: bytes) -> frozenset[bytes]:
    return frozenset(line for line in _LINE.split(content) if len(line) >= _LINE_BYTES)
