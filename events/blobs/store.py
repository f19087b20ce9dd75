"""The blobs of a log as its format stores them: attached to events, found, read back.

Format 1 writes a text's whole name with every event that has it, and packs each text alone.
Format 2 numbers texts, and packs one against another (``events.blobs.packing``). The tables
``blobs`` and ``event_blobs`` of the first are views in the second: SQL that only reads sees
no difference. Format 1 is engine 0.1's, and is read only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from events.blobs.packing import Packer, unpacked
from events.envelope import Blob, sha256_hex
from events.errors import BlobRedacted, LogDamaged

__all__ = ["REDACTED", "Blobs", "StoredBlob", "blobs_of", "read_blob"]

REDACTED = "redacted"
"""The codec of a tombstone: a blob whose content was left out (``events.redact``)."""


class StoredBlob(msgspec.Struct, frozen=True):
    """``base`` is the number of the blob that this one is packed against, if any."""

    id: int
    sha256: str
    codec: str
    size: int
    data: bytes
    base: int | None


class Blobs:
    """The blobs of one open log of format 2."""

    FORMAT: ClassVar = 2
    _ALL: ClassVar = "SELECT id, lower(hex(sha256)), codec, size, data, base FROM blob_data"
    _NAMED: ClassVar = "substr(sha256, 1, 8) = substr(?1, 1, 8) AND sha256 = ?1"
    _TABLE: ClassVar = "blob_data"
    _NAMES: ClassVar = (
        "SELECT r.seq, r.pos, r.name, lower(hex(b.sha256)) FROM blob_refs AS r"
        " LEFT JOIN blob_data AS b ON b.id = r.blob"
    )

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._packer = Packer()

    def attach(self, seq: int, blobs: Sequence[tuple[Blob, str]]) -> None:
        """Give the newest event its blobs, each with its sha256. Most prompt parts repeat: a
        content that the log has, or a tombstone of it, is not stored again."""
        for pos, (blob, sha) in enumerate(blobs):
            self._connection.execute(
                "INSERT INTO blob_refs (seq, pos, name, blob) VALUES (?, ?, ?, ?)",
                (seq, pos, blob.name, self._number(sha, blob.data)),
            )

    def add_tombstone(self, sha: str, size: int) -> None:
        """What stands for a blob that was left out; an event may refer to it then."""
        self._insert(self._next(), sha, REDACTED, size, b"", None)

    def names(self, seq: int) -> Iterator[tuple[str, str]]:
        """(name, sha256) of the event's blobs, in order."""
        for _, _, name, sha in self._connection.execute(
            f"{self._NAMES} WHERE r.seq = ? ORDER BY r.pos", (seq,)
        ):
            yield name, sha

    def places(self, run_id: int) -> Iterator[tuple[int, int, str, str]]:
        """(seq, pos, name, sha256) of all that a run's events have; '' where a blob is missing."""
        yield from self._connection.execute(
            f"{self._NAMES} JOIN events AS e ON e.seq = r.seq WHERE e.run_id = ?"
            " ORDER BY r.seq, r.pos",
            (run_id,),
        )

    def tombstones(self) -> int:
        (count,) = self._connection.execute(
            f"SELECT count(*) FROM {self._TABLE} WHERE codec = ? AND length(data) = 0", (REDACTED,)
        ).fetchone()
        return int(count)

    def find(self, sha: str) -> StoredBlob | None:
        try:
            return self._one(f"{self._ALL} WHERE {self._NAMED}", self._key(sha))
        except ValueError:
            return None  # no name of a blob

    def all(self) -> Iterator[StoredBlob]:
        for row in self._connection.execute(f"{self._ALL} ORDER BY id"):
            yield StoredBlob(*row)

    def read(self, stored: StoredBlob) -> bytes:
        """The content. Raises ``LogDamaged``, which names the base if it is that which is
        damaged, and ``BlobRedacted``."""
        if stored.base is None:
            return read_blob(stored)
        base = self._one(f"{self._ALL} WHERE id = ?", stored.base)
        needs = f"blob {stored.sha256[:12]} is packed against"
        if base is None or base.base is not None:
            raise LogDamaged(f"{needs} number {stored.base}, which is not stored whole")
        try:
            content = read_blob(base)
        except LogDamaged as error:
            raise LogDamaged(f"{needs} another: {error}") from error
        return read_blob(stored, content)

    def missing(self) -> Iterator[tuple[int, str]]:
        """(``seq`` of the event, the blob's description) for each blob that is missing."""
        for seq, name, number in self._connection.execute(
            "SELECT seq, name, blob FROM blob_refs WHERE blob NOT IN (SELECT id FROM blob_data)"
        ):
            yield seq, f"{name!r} (number {number})"

    def _one(self, sql: str, value: object) -> StoredBlob | None:
        row = self._connection.execute(sql, (value,)).fetchone()
        return None if row is None else StoredBlob(*row)

    def _number(self, sha: str, content: bytes) -> int:
        found = self._connection.execute(
            f"SELECT id FROM {self._TABLE} WHERE {self._NAMED}", (self._key(sha),)
        ).fetchone()
        if found is not None:
            return int(found[0])
        packed, number = self._packer.pack(content), self._next()
        self._insert(number, sha, packed.codec, len(content), packed.data, packed.base)
        if packed.base is None:
            self._packer.stored(number, content)
        return number

    def _next(self) -> int:
        (newest,) = self._connection.execute(
            f"SELECT coalesce(max(id), 0) FROM {self._TABLE}"
        ).fetchone()
        return int(newest) + 1

    def _key(self, sha: str) -> bytes | str:
        return bytes.fromhex(sha)

    def _insert(
        self, number: int, sha: str, codec: str, size: int, data: bytes, base: int | None
    ) -> None:
        self._connection.execute(
            "INSERT INTO blob_data (id, sha256, codec, size, base, data) VALUES (?, ?, ?, ?, ?, ?)",
            (number, self._key(sha), codec, size, base, data),
        )


class _Blobs1(Blobs):
    """Those of a log of format 1, which no writer opens."""

    FORMAT: ClassVar = 1
    _ALL: ClassVar = "SELECT id, sha256, codec, size, data, NULL FROM blobs"
    _NAMED: ClassVar = "sha256 = ?1"
    _TABLE: ClassVar = "blobs"
    _NAMES: ClassVar = "SELECT r.seq, r.pos, r.name, r.sha256 FROM event_blobs AS r"

    def missing(self) -> Iterator[tuple[int, str]]:
        for seq, sha in self._connection.execute(
            "SELECT seq, sha256 FROM event_blobs WHERE sha256 NOT IN (SELECT sha256 FROM blobs)"
        ):
            yield seq, sha[:12]

    def _key(self, sha: str) -> bytes | str:
        return sha


def blobs_of(connection: sqlite3.Connection) -> Blobs:
    """The blobs of an open log, by what its file has. Raises ``sqlite3.Error``."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'blob_data'").fetchone()
    return _Blobs1(connection) if found is None else Blobs(connection)


def read_blob(stored: StoredBlob, base: bytes | None = None) -> bytes:
    """Unpack a blob, with the content of its base if it has one, and check it against its name.

    Raises ``LogDamaged``, or ``BlobRedacted`` for a tombstone.
    """
    name = f"blob {stored.sha256[:12]}"
    if stored.codec == REDACTED:
        raise BlobRedacted(f"{name} is redacted: this copy of the log has no texts")
    try:
        content = unpacked(stored.codec, stored.data, base)
    except ValueError as error:
        raise LogDamaged(f"{name} can't be unpacked: {error}") from error
    if sha256_hex(content) != stored.sha256:
        raise LogDamaged(f"{name} is not what its name says")
    return content
