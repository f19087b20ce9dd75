"""Full-text search over a log's texts, in a side file that can be thrown away at any time.

The index knows how far it has read (``seq``, and that event's hash) and reads on from
there; if the log has another event in that place, it begins anew. It says only where to
look: what is shown is read from the log, and a hit that the log does not confirm is dropped.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import TracebackType

import msgspec

from events.errors import BlobRedacted, LogDamaged, LogError
from events.reader import LogReader

__all__ = ["KINDS", "Hit", "IndexUnusable", "TextIndex"]

KINDS = ("prompt", "reply", "plan", "source", "log", "task", "hint")
"""What a text is to its event; a plan's advice and source come out of a reply."""

_VERSION = 1
_SCHEMA = f"""
PRAGMA user_version = {_VERSION};
CREATE TABLE covered (seq INTEGER NOT NULL, hash BLOB NOT NULL);
CREATE TABLE texts (id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE);
CREATE TABLE places (text INTEGER NOT NULL, kind TEXT NOT NULL, seq INTEGER NOT NULL,
  name TEXT NOT NULL);
CREATE INDEX places_of_text ON places (text, kind, seq);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize="unicode61 tokenchars '_'");
"""
_KIND_OF_NAME = {
    "advice": "plan", "annotated": "plan", "source": "source", "compile_log": "log",
    "run_log": "log",
}  # fmt: skip
_KIND_OF_TYPE = {
    "PromptRendered": "prompt",
    "AgentReplied": "reply",
    "RunStarted": "task",
    "HintGiven": "hint",
}
_EXCERPT_CHARS = 160


class IndexUnusable(LogError):
    """The side file can't be made, or SQLite here has no full-text search."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A text that has the words. ``seq`` is the first event with it, ``events`` how many have."""

    run_id: int
    run_seq: int
    seq: int
    type: str
    kind: str
    name: str
    node: int | None
    role: str | None
    sha256: str
    events: int
    line: int
    excerpt: str


class TextIndex:
    """Use as a context manager. Raises ``IndexUnusable``."""

    def __init__(self, log: LogReader, path: Path | None = None) -> None:
        self._log = log
        self.path = path or _place(log.path)
        try:
            try:
                self._connection = self._open()
            except sqlite3.DatabaseError:
                self.path.unlink(missing_ok=True)  # whatever it was: it can be made anew
                self._connection = self._open()
            self._read_on()
        except (sqlite3.Error, OSError) as error:
            raise IndexUnusable(f"{self.path}: {error}") from error

    def __enter__(self) -> TextIndex:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def find(self, words: str, *, kind: str | None = None, run_id: int | None = None,
             ) -> Iterator[Hit]:  # fmt: skip
        """Texts with all of the words, the best match first. ``"a phrase"`` stays together,
        ``load*`` is any word that begins so."""
        terms = _terms(words)
        if not terms:
            return
        places = self._connection.execute(
            "WITH found AS MATERIALIZED ("
            "  SELECT rowid AS id, bm25(words) AS score FROM words WHERE words MATCH ?)"
            " SELECT t.sha256, p.kind, p.seq, p.name"
            " FROM found JOIN texts AS t USING (id) JOIN places AS p ON p.text = t.id"
            " WHERE ? IS NULL OR p.kind = ?"
            " ORDER BY score, min(p.seq) OVER (PARTITION BY t.id), t.id, p.seq",
            (" ".join(map(_quoted, terms)), kind, kind),
        )
        for sha256, same in groupby(places.fetchall(), key=lambda place: place[0]):
            of_run = [place for place in same if run_id is None or self._log.has(run_id, place[2])]
            if not of_run:
                continue
            _, found_kind, seq, name = of_run[0]
            events = len({place[2] for place in of_run})
            hit = self._confirm(sha256, found_kind, seq, name, events, terms)
            if hit is not None:
                yield hit

    def _confirm(
        self, sha256: str, kind: str, seq: int, name: str, events: int, terms: list[str]
    ) -> Hit | None:
        row = self._log.connection.execute(
            "SELECT e.run_id, e.run_seq, e.type, e.body FROM events AS e JOIN event_blobs AS b"
            " USING (seq) WHERE e.seq = ? AND b.sha256 = ? AND b.name = ?",
            (seq, sha256, name),
        ).fetchone()
        if row is None:
            return None
        try:
            text = self._log.text(sha256)
        except (BlobRedacted, LogDamaged):
            return None
        run_id, run_seq, type_, body = row
        about = msgspec.json.decode(body)
        line, excerpt = _excerpt(text, terms)
        return Hit(
            run_id=run_id, run_seq=run_seq, seq=seq, type=type_, kind=kind, name=name,
            node=about.get("attempt"), role=about.get("role"), sha256=sha256, events=events,
            line=line, excerpt=excerpt,
        )  # fmt: skip

    # -- keeping up with the log --------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=30.0)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                _make_anew(connection)
            connection.execute("SELECT count(*) FROM places, covered, texts LIMIT 1").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_on(self) -> None:
        """Index what the log has beyond what is covered; everything, if that is another's."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            covered = self._connection.execute("SELECT seq, hash FROM covered").fetchone()
            if covered is None or self._hash_at(covered[0]) != covered[1]:
                for table in ("covered", "texts", "places"):
                    self._connection.execute(f"DELETE FROM {table}")
                self._connection.execute("INSERT INTO words(words) VALUES ('delete-all')")
                covered = 0, b""
            newest = self._log.newest_seq()
            self._take(covered[0], newest)
            if newest:
                self._connection.execute("DELETE FROM covered")
                self._connection.execute(
                    "INSERT INTO covered VALUES (?, ?)", (newest, self._hash_at(newest))
                )
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def _hash_at(self, seq: int) -> bytes | None:
        row = self._log.connection.execute(
            "SELECT hash FROM events WHERE seq = ?", (seq,)
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _take(self, after: int, upto: int) -> None:
        rows = self._log.connection.execute(
            "SELECT b.seq, b.name, b.sha256, e.type FROM event_blobs AS b JOIN events AS e"
            " USING (seq) WHERE b.seq > ? AND b.seq <= ? ORDER BY b.seq, b.pos",
            (after, upto),
        )
        for seq, name, sha256, type_ in rows:
            kind = _KIND_OF_TYPE.get(type_) or _KIND_OF_NAME.get(name, "reply")
            if type_ == "RunStarted" and name == "given":
                kind = "source"  # the user's kernel
            self._connection.execute(
                "INSERT INTO places VALUES (?, ?, ?, ?)", (self._text(sha256), kind, seq, name)
            )

    def _text(self, sha256: str) -> int:
        known = self._connection.execute(
            "SELECT id FROM texts WHERE sha256 = ?", (sha256,)
        ).fetchone()
        if known is not None:
            return int(known[0])
        number = self._connection.execute("INSERT INTO texts (sha256) VALUES (?)", (sha256,))
        try:
            text = self._log.blob(sha256).decode("utf-8", "replace")
        except (BlobRedacted, LogDamaged):
            text = ""  # that is for `engine verify` to report
        self._connection.execute(
            "INSERT INTO words (rowid, text) VALUES (?, ?)", (number.lastrowid, text)
        )
        return int(number.lastrowid or 0)


def _make_anew(connection: sqlite3.Connection) -> None:
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if objects:
        raise sqlite3.DatabaseError("of another version")
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")


def _place(log: Path) -> Path:
    """Beside the log; in the user's cache where that folder can't be written."""
    log = log.resolve()
    if os.access(log.parent, os.W_OK):
        return log.with_name(log.name + ".fts")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(str(log).encode()).hexdigest()[:16]
    return cache / "stark-engine" / f"{log.name}.{key}.fts"


# -- words ----------------------------------------------------------------------------------


def _terms(words: str) -> list[str]:
    return [phrase or word for phrase, word in re.findall(r'"([^"]+)"|([^\s"]+)', words)]


def _quoted(term: str) -> str:
    """As FTS5 reads it: a string, so that no word is taken for its syntax."""
    return f'"{term.removesuffix("*")}"*' if term.endswith("*") else f'"{term}"'


def _excerpt(text: str, terms: list[str]) -> tuple[int, str]:
    """The line (from 1) that has most of the terms, cut around the first of them."""
    wanted = [term.removesuffix("*").lower() for term in terms]
    best, number, chosen = -1, 1, ""
    for at, line in enumerate(text.splitlines(), 1):
        having = sum(term in line.lower() for term in wanted)
        if having > best:
            best, number, chosen = having, at, line.strip()
    lower = chosen.lower()
    first = min((lower.find(term) for term in wanted if term in lower), default=0)
    start = max(0, first - _EXCERPT_CHARS // 3)
    shown = chosen[start : start + _EXCERPT_CHARS]
    return number, ("…" if start else "") + shown + (
        "…" if start + len(shown) < len(chosen) else ""
    )
