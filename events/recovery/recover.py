"""Save from a damaged log what is provably as it was written, into a new one.

Of each run that is its longest intact prefix: up to the first event that is unreadable, does
not fit the hash chain, or has lost one of its blobs. What comes later might be whole, but
its history has a hole, and no replay could get over it.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec

from events.blobs.store import REDACTED, Blobs, blobs_of
from events.connect import connect_read_write
from events.envelope import Blob, chain_hash, genesis_hash
from events.errors import LogError, LogUnreadable
from events.reader import RunRow
from events.recovery.rebuild import content_of, readings, rebuilt_run
from events.recovery.salvage import Salvage
from events.rows import EventRow, NewEvent, insert_events, insert_run

__all__ = ["Recovery", "RunSaved", "recover_log"]

Named = list[tuple[Blob, str]]


class RunSaved(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run: its events 1 to ``saved`` are in the new log, ``lost`` more are not."""

    run_id: int
    """In the damaged log."""
    uid: str
    saved: int
    lost: int
    """At least: what the file no longer mentions anywhere is not counted."""
    lost_seqs: list[int]
    """The damaged log's ``seq`` of the lost events, where it still says."""
    lost_blobs: list[str]
    why: str = ""
    rebuilt: bool = False
    """Its own row was damaged and could be made again; the chain proves it."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """``redacted`` of the ``blobs`` are tombstones, as they were."""

    events: int
    blobs: int
    redacted: int
    runs: list[RunSaved]

    @property
    def whole(self) -> bool:
        return not any(run.lost or run.why for run in self.runs)


class _Kept(msgspec.Struct, frozen=True):
    row: EventRow
    names: list[tuple[str, str]]
    """(name, sha256) of its blobs."""


class _Prefix(msgspec.Struct, frozen=True):
    """The intact part of a run. ``hashes`` is by run_seq, a fork's shared part included;
    ``why`` it ends, if there was more."""

    run: RunRow
    events: list[_Kept]
    hashes: dict[int, bytes]
    why: str
    lost_blobs: list[str]
    rebuilt: bool = False


def recover_log(damaged: Path, new: Path) -> Recovery:
    """Write ``new`` and say what was lost. Raises ``LogError``; then ``new`` is not made."""
    if new.exists():
        raise LogUnreadable(f"{new}: there is a file of this name already")
    if not damaged.is_file():
        raise LogUnreadable(f"{damaged}: no such log")
    found = Salvage(damaged)
    numbers = sorted(found.runs.keys() | {run_id for run_id, _ in found.places})
    prefixes: dict[int, _Prefix] = {}
    for run_id in numbers:
        prefix = _best(found, run_id, prefixes)
        if prefix is not None:
            prefixes[run_id] = prefix
    if not any(prefix.events for prefix in prefixes.values()):
        raise LogUnreadable(f"{damaged}: nothing of a log could be found in it")
    events, blobs, redacted = _write(found, _kept(prefixes), new)
    saved = {kept.row.seq for prefix in prefixes.values() for kept in prefix.events}
    told = [_told(found, run_id, prefixes.get(run_id), saved) for run_id in numbers]
    # A run that only damaged copies of saved rows speak of has never been.
    real = [run for run in told if run.uid or run.lost]
    return Recovery(events=events, blobs=blobs, redacted=redacted, runs=real)


def _best(found: Salvage, run_id: int, parents: dict[int, _Prefix]) -> _Prefix | None:
    """The longest prefix that any copy of the run's own row leads to, or the row made again."""
    tried = [
        _prefix(found, run, parents)
        for run in found.runs.get(run_id, ())
        if run.parent_run_id is None
        or run.parent_seq in getattr(parents.get(run.parent_run_id), "hashes", {})
    ]
    best = max(tried, key=lambda prefix: len(prefix.events), default=None)
    if best is None or not best.events:
        hashes = {number: parent.hashes for number, parent in parents.items()}
        rebuilt = rebuilt_run(found, run_id, hashes)
        if rebuilt is not None:
            return msgspec.structs.replace(_prefix(found, rebuilt, parents), rebuilt=True)
    return best


def _kept(prefixes: dict[int, _Prefix]) -> list[_Prefix]:
    """Runs with something left, and those that such a run was forked from."""
    needed: set[int | None] = set()
    for number in sorted(prefixes, reverse=True):
        if prefixes[number].events or number in needed:
            needed |= {number, prefixes[number].run.parent_run_id}
    return [prefix for number, prefix in prefixes.items() if number in needed]


def _prefix(found: Salvage, run: RunRow, parents: dict[int, _Prefix]) -> _Prefix:
    start, before, hashes = 0, b"", dict[int, bytes]()
    if run.parent_run_id is not None and run.parent_seq is not None:
        start, shared = run.parent_seq, parents[run.parent_run_id].hashes
        before, hashes = shared[start], {seq: shared[seq] for seq in shared if seq <= start}
    previous = genesis_hash(run.uid, run.created_us, before)
    events: list[_Kept] = []
    for run_seq in itertools.count(start + 1):
        kept = _next(found, run.run_id, run_seq, previous)
        if kept is None:
            why = f"event {run_seq} of the run is unreadable or not as it was written"
            return _Prefix(run, events, hashes, why, [])
        missing = {sha: name for name, sha in kept.names if _is_missing(found, name, sha)}
        if missing:
            names = ", ".join(missing.values())
            why = f"event {run_seq} of the run ({kept.row.type}) has lost blobs: {names}"
            return _Prefix(run, events, hashes, why, list(missing))
        events.append(kept)
        previous = hashes[run_seq] = kept.row.hash
    raise AssertionError("unreachable")


def _is_missing(found: Salvage, name: str, sha: str) -> bool:
    return found.blob(name, sha) is None and found.tombstone(sha) is None


def _next(found: Salvage, run_id: int, run_seq: int, previous: bytes) -> _Kept | None:
    """The candidate that the chain confirms; of two, the newer writer's, which was committed."""
    candidates = found.events.get((run_id, run_seq), set())
    for row in sorted(candidates, key=lambda row: -row.epoch):
        for names in readings(found, row.seq):
            if chain_hash(previous, content_of(row, names)) == row.hash:
                return _Kept(row, names)
    return None


def _write(found: Salvage, kept: list[_Prefix], new: Path) -> tuple[int, int, int]:
    """The new log, in the old order, made under another name until it is whole: how many
    events, blobs and tombstones among these."""
    making = new.with_name(f"{new.name}.making")
    making.unlink(missing_ok=True)
    connection = connect_read_write(making)
    try:
        connection.execute("BEGIN IMMEDIATE")
        texts = blobs_of(connection)
        ids: dict[int | None, int] = {}
        for prefix in kept:
            run = prefix.run
            ids[run.run_id] = len(ids) + 1
            parent = ids.get(run.parent_run_id)
            insert_run(connection, ids[run.run_id], run.uid, run.created_us, parent, run.parent_seq)
        chosen = itertools.chain(*(prefix.events for prefix in kept))
        events = sorted(chosen, key=lambda event: event.row.seq)
        for seq, event in enumerate(events, 1):
            row = msgspec.structs.replace(event.row, seq=seq, run_id=ids[event.row.run_id])
            content = _content(texts, found, event.names)
            insert_events(connection, texts, [NewEvent(row, content)])
        blobs, redacted = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE codec = ?) FROM blobs", (REDACTED,)
        ).fetchone()
        connection.execute("COMMIT")
        connection.set_authorizer(None)
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()
        making.rename(new)
    except BaseException:
        connection.close()
        making.unlink(missing_ok=True)
        raise
    return len(events), blobs, redacted


def _content(texts: Blobs, found: Salvage, names: list[tuple[str, str]]) -> Named:
    """The blobs of an event. Those that were left out get their tombstones first."""
    content: Named = []
    for name, sha in names:
        blob, size = found.blob(name, sha), found.tombstone(sha)
        if blob is None and size is not None:
            texts.add_tombstone(sha, size)
            blob = Blob(name, b"")
        if blob is None:
            raise LogError(f"blob {sha[:12]} changed while it was saved")
        content.append((blob, sha))
    return content


def _told(found: Salvage, run_id: int, prefix: _Prefix | None, saved: set[int]) -> RunSaved:
    last = 0
    if prefix is not None:
        last = prefix.events[-1].row.run_seq if prefix.events else prefix.run.parent_seq or 0
    lost = sorted(
        seq
        for (id_, run_seq), seq in found.places.items()
        if id_ == run_id and run_seq > last and seq not in saved
    )
    if prefix is None:
        uid = ", ".join(sorted(run.uid for run in found.runs.get(run_id, ())))
        why = "the run it was forked from is lost" if uid else "its row among the runs is lost"
        return RunSaved(
            run_id=run_id, uid=uid, saved=0, lost=len(lost), lost_seqs=lost, lost_blobs=[], why=why
        )
    blobs = dict.fromkeys(prefix.lost_blobs)
    for seq in lost:
        for names in found.names.get(seq, {}).values():
            blobs |= {sha: None for name, sha in names if _is_missing(found, name, sha)}
    return RunSaved(
        run_id=run_id, uid=prefix.run.uid, saved=len(prefix.events), lost=len(lost),
        lost_seqs=lost, lost_blobs=list(blobs), why=prefix.why if lost else "",
        rebuilt=prefix.rebuilt,
    )  # fmt: skip
