"""What can still be found of a damaged log: candidates, whose truth the hash chain decides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

from events.blobs.store import REDACTED, StoredBlob, read_blob
from events.envelope import Blob
from events.errors import BlobRedacted, LogDamaged
from events.reader import RunRow
from events.recovery.pages import Cell, Pages, Value
from events.rows import EventRow

__all__ = ["Salvage"]

_SHA_CHARS = 64
_NUMBER, _TEXT, _BYTES, _NULL = int, str, bytes, type(None)

_RUN = (_NULL, _TEXT, _NUMBER)  # then the parent: two numbers, or two nulls
_EVENT = (_NULL, *[_NUMBER] * 3, _TEXT, _TEXT, _NUMBER, _NUMBER, _TEXT, _BYTES)
_BLOB_1 = (_NULL, _TEXT, _TEXT, _NUMBER, _BYTES)
_BLOB_2 = {(_NULL, _BYTES, _TEXT, _NUMBER, base, _BYTES) for base in (_NUMBER, _NULL)}
_NAME_1 = (_NUMBER, _NUMBER, _TEXT, _TEXT)  # of an event's blob, which it has by its sha256
_NAME_2 = (_NUMBER, _NUMBER, _TEXT, _NUMBER)  # or by its number
_RUN_NAME = (_TEXT, _NUMBER)  # of the index of runs by uid; that of blobs looks alike
_PLACE = (_NUMBER, _NUMBER, _NUMBER)  # of the index of events by run and run_seq


class Salvage:
    """Everything that looks like a row of a log, by what it claims to be.

    ``runs`` by run_id, and the ``uids`` that their index knows; ``events`` by (run_id,
    run_seq), several where copies differ; ``names`` of an event's blobs by seq, then
    position; ``places`` are the (run_id, run_seq) that the index knows, found or not, with
    their seq.
    """

    def __init__(self, path: Path) -> None:
        self.runs: dict[int, set[RunRow]] = defaultdict(set)
        self.uids: dict[int, set[str]] = defaultdict(set)
        self.events: dict[tuple[int, int], set[EventRow]] = defaultdict(set)
        self.names: dict[int, dict[int, set[tuple[str, str]]]] = defaultdict(
            lambda: defaultdict(set)
        )
        self.places: dict[tuple[int, int], int] = {}
        self._blobs: dict[str, list[Cell]] = defaultdict(list)
        self._numbered: dict[int, set[str]] = defaultdict(set)
        self._by_number: list[tuple[int, int, str, int]] = []
        self._pages = Pages(path)
        for cell in self._pages.cells():
            try:
                self._sort(cell, self._pages.values(cell))
            except ValueError:
                continue  # damaged, or never a row
        for seq, pos, name, number in self._by_number:
            self.names[seq][pos] |= {(name, sha) for sha in self._numbered.get(number, ())}

    def blob(self, name: str, sha: str) -> Blob | None:
        """The blob, where a copy of it, and of its base, is as it was written."""
        for stored in self._stored(sha):
            if stored.base is None:
                bases: set[bytes | None] = {None}
            else:
                whole = self._numbered.get(stored.base, ())
                bases = {content for other in whole for content in self._whole(other)}
            for base in bases:
                with suppress(LogDamaged, BlobRedacted):
                    return Blob(name, read_blob(stored, base))
        return None

    def _whole(self, sha: str) -> Iterator[bytes]:
        for stored in self._stored(sha):
            if stored.base is None:
                with suppress(LogDamaged, BlobRedacted):
                    yield read_blob(stored)

    def _stored(self, sha: str) -> Iterator[StoredBlob]:
        for cell in self._blobs.get(sha, ()):
            _, _, codec, size, *base, data = self._pages.values(cell)
            yield StoredBlob(
                cell.rowid, sha, codec, size, data, base[0] if base else None,  # type: ignore[arg-type]
            )  # fmt: skip

    def tombstone(self, sha: str) -> int | None:
        """The size of a blob that was left out of this copy of the log; None for others."""
        for stored in self._stored(sha):
            if stored.codec == REDACTED and stored.data == b"":
                return stored.size
        return None

    def _sort(self, cell: Cell, values: tuple[Value, ...]) -> None:
        rowid, shape = cell.rowid, tuple(type(value) for value in values)
        if rowid is None:
            if shape == _NAME_2:
                self._by_number.append(cast("tuple[int, int, str, int]", values))
            elif shape == _NAME_1:
                seq, pos, name, sha = cast("tuple[int, int, str, str]", values)
                # The chain covers what the hex digits mean: one bit turns an a into an A.
                self.names[seq][pos].add((name, bytes.fromhex(sha).hex()))
            elif shape == _PLACE:
                run_id, run_seq, seq = cast("tuple[int, int, int]", values)
                self.places[run_id, run_seq] = seq
            elif shape == _RUN_NAME:
                text, number = cast("tuple[str, int]", values)
                if len(text) != _SHA_CHARS:
                    self.uids[number].add(text)
        elif shape == _EVENT:
            event = EventRow(rowid, *values[1:])  # type: ignore[arg-type]
            self.events[event.run_id, event.run_seq].add(event)
            self.places[event.run_id, event.run_seq] = event.seq
        elif shape == _BLOB_1:
            self._blobs[cast(str, values[1]).lower()].append(cell)
        elif shape in _BLOB_2:
            sha = cast(bytes, values[1]).hex()
            self._blobs[sha].append(cell)
            self._numbered[rowid].add(sha)
        elif len(values) == 5 and shape[:3] == _RUN and set(shape[3:]) <= {_NUMBER, _NULL}:
            _, uid, created_us, parent, parent_seq = values
            self.runs[rowid].add(
                RunRow(
                    run_id=rowid, uid=uid, created_us=created_us,  # type: ignore[arg-type]
                    parent_run_id=parent, parent_seq=parent_seq,  # type: ignore[arg-type]
                )
            )  # fmt: skip
