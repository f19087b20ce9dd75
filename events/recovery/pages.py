"""Rows straight out of a file's pages, for a log that SQLite can't read any more.

SQLite finds a row through the schema and a tree of pages: one damaged page hides all that
hangs below it. Here every page of the file and of its ``-wal`` is looked at for itself, as
https://sqlite.org/fileformat2.html describes them, and whatever decodes is handed out,
rows of outdated copies of a page too. That is enough for a log, whose rows never change
and the hash chain shows which of them are true.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from events.connect import PAGE_BYTES, beside

__all__ = ["Cell", "Pages", "Value"]

Value = int | float | str | bytes | None

_INTERIOR_INDEX, _LEAF_INDEX, _LEAF_TABLE = 2, 10, 13
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class Cell(NamedTuple):
    """Where a row lies. ``rowid`` is None in an index and in a table without rowids."""

    page: bytes
    at: int
    local: int
    size: int
    rowid: int | None


class Pages:
    """All pages of ``path`` and its ``-wal``."""

    def __init__(self, path: Path) -> None:
        self._file = _map(path)
        self._wal = _map(beside(path, "-wal"))
        self._frames = _newest_frames(self._wal)

    def cells(self) -> Iterator[Cell]:
        for at in range(0, len(self._file), PAGE_BYTES):
            yield from _cells(self._file[at : at + PAGE_BYTES], 100 if at == 0 else 0)
        for number, at in _frames(self._wal):
            yield from _cells(self._wal[at : at + PAGE_BYTES], 100 if number == 1 else 0)

    def values(self, cell: Cell) -> tuple[Value, ...]:
        """The row's columns. Raises ``ValueError`` when it is no row."""
        try:
            return _record(self._payload(cell))
        except (IndexError, struct.error, OverflowError) as error:
            raise ValueError(str(error)) from error

    def _payload(self, cell: Cell) -> bytes:
        """The row's bytes, those that overflow the page from the chain of pages after it."""
        payload = bytearray(cell.page[cell.at : cell.at + cell.local])
        if cell.size == cell.local:
            return bytes(payload)
        if cell.size > len(self._file) + len(self._wal):
            raise ValueError("larger than the file")
        (following,) = struct.unpack_from(">I", cell.page, cell.at + cell.local)
        while len(payload) < cell.size:
            page = self._page(following)
            (following,) = struct.unpack_from(">I", page)
            payload += page[4 : 4 + cell.size - len(payload)]
        return bytes(payload)

    def _page(self, number: int) -> bytes:
        """A page as the ``-wal`` last had it, else the file's. Raises ``ValueError``."""
        if number in self._frames:
            at = self._frames[number]
            page = self._wal[at : at + PAGE_BYTES]
        else:
            at = (number - 1) * PAGE_BYTES
            page = self._file[at : at + PAGE_BYTES] if number > 0 else b""
        if len(page) < PAGE_BYTES:
            raise ValueError(f"page {number} is not there")
        return page


def _map(path: Path) -> mmap.mmap | bytes:
    if not path.is_file() or path.stat().st_size == 0:
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _frames(wal: mmap.mmap | bytes) -> Iterator[tuple[int, int]]:
    """(page number, offset of the page) of each frame, outdated ones too."""
    step = _FRAME_HEADER + PAGE_BYTES
    for at in range(_WAL_HEADER, len(wal) - step + 1, step):
        (number,) = struct.unpack_from(">I", wal, at)
        yield number, at + _FRAME_HEADER


def _newest_frames(wal: mmap.mmap | bytes) -> dict[int, int]:
    """Each page's last frame of the present generation, which the header's salts name."""
    salts = wal[16:24]
    return {
        number: at
        for number, at in _frames(wal)
        if wal[at - _FRAME_HEADER + 8 : at - _FRAME_HEADER + 16] == salts
    }


def _cells(page: bytes, start: int) -> Iterator[Cell]:
    if len(page) < PAGE_BYTES or page[start] not in (_INTERIOR_INDEX, _LEAF_INDEX, _LEAF_TABLE):
        return
    kind = page[start]
    (count,) = struct.unpack_from(">H", page, start + 3)
    pointers = start + (12 if kind == _INTERIOR_INDEX else 8)
    for pointer in range(pointers, min(pointers + 2 * count, PAGE_BYTES - 1), 2):
        (at,) = struct.unpack_from(">H", page, pointer)
        try:
            yield _cell(page, kind, at)
        except IndexError:
            continue  # the pointer leads out of the page: it is damaged


def _cell(page: bytes, kind: int, at: int) -> Cell:
    rowid = None
    if kind == _INTERIOR_INDEX:
        at += 4
    size, at = _varint(page, at)
    if kind == _LEAF_TABLE:
        rowid, at = _varint(page, at)
    return Cell(page, at, _local_bytes(size, kind), size, rowid)


def _local_bytes(size: int, kind: int) -> int:
    """How much of a row lies on its page; the format's own formula."""
    least = (PAGE_BYTES - 12) * 32 // 255 - 23
    most = PAGE_BYTES - 35 if kind == _LEAF_TABLE else (PAGE_BYTES - 12) * 64 // 255 - 23
    if size <= most:
        return size
    fitting = least + (size - least) % (PAGE_BYTES - 4)
    return fitting if fitting <= most else least


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count in range(9):
        byte = data[at + count]
        if count == 8:
            return _signed((value << 8) | byte), at + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value, at + count + 1


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _record(payload: bytes) -> tuple[Value, ...]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values = []
    for kind in kinds:
        value, at = _value(payload, kind, at)
        values.append(value)
    if at > len(payload):
        raise ValueError("shorter than it says")
    return tuple(values)


def _value(payload: bytes, kind: int, at: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind in _INTEGER_BYTES:
        end = at + _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind < 12:
        raise ValueError(f"no column is of kind {kind}")
    end = at + (kind - 12) // 2
    return (payload[at:end].decode() if kind % 2 else payload[at:end]), end
