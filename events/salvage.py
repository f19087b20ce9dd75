"""What can still be found of a damaged log: candidates, whose truth the hash chain decides."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import cast

from events.envelope import Blob
from events.errors import BlobRedacted, LogDamaged
from events.pages import Cell, Pages, Value
from events.reader import RunRow, read_blob
from events.rows import REDACTED, EventRow

__all__ = ["Salvage"]

_SHA_CHARS = 64
_NUMBER, _TEXT, _BYTES, _NULL = int, str, bytes, type(None)

_RUN = (_NULL, _TEXT, _NUMBER)  # then the parent: two numbers, or two nulls
_EVENT = (_NULL, *[_NUMBER] * 3, _TEXT, _TEXT, _NUMBER, _NUMBER, _TEXT, _BYTES)
_BLOB = (_NULL, _TEXT, _TEXT, _NUMBER, _BYTES)
_EVENT_BLOB = (_NUMBER, _NUMBER, _TEXT, _TEXT)
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
        self._pages = Pages(path)
        for cell in self._pages.cells():
            try:
                self._sort(cell, self._pages.values(cell))
            except ValueError:
                continue  # damaged, or never a row

    def blob(self, name: str, sha: str) -> Blob | None:
        """The blob, where a copy of it is as it was written."""
        for cell in self._blobs.get(sha, ()):
            _, _, codec, _, data = self._pages.values(cell)
            with suppress(LogDamaged, BlobRedacted):
                return Blob(name, read_blob(sha, cast(str, codec), cast(bytes, data)))
        return None

    def tombstone(self, sha: str) -> int | None:
        """The size of a blob that was left out of this copy of the log; None for others."""
        for cell in self._blobs.get(sha, ()):
            _, _, codec, size, data = self._pages.values(cell)
            if codec == REDACTED and data == b"":
                return cast(int, size)
        return None

    def _sort(self, cell: Cell, values: tuple[Value, ...]) -> None:
        rowid, shape = cell.rowid, tuple(type(value) for value in values)
        if rowid is None:
            if shape == _EVENT_BLOB:
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
        elif shape == _BLOB:
            self._blobs[cast(str, values[1]).lower()].append(cell)
        elif len(values) == 5 and shape[:3] == _RUN and set(shape[3:]) <= {_NUMBER, _NULL}:
            _, uid, created_us, parent, parent_seq = values
            self.runs[rowid].add(
                RunRow(
                    run_id=rowid, uid=uid, created_us=created_us,  # type: ignore[arg-type]
                    parent_run_id=parent, parent_seq=parent_seq,  # type: ignore[arg-type]
                )
            )  # fmt: skip
