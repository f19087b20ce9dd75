"""A run's own row made again, where it is damaged: its uid, its time and what it forked from.

The uid is in the index of runs, too. A fork's first number says where it left its parent. The
time is found by trying, because the first event's hash covers it: what fits is what was
written. It lies shortly before the first event's, or in what is left of the row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from events.envelope import chain_hash, chained, genesis_hash
from events.reader import RunRow
from events.recovery.salvage import Salvage
from events.rows import EventRow

__all__ = ["content_of", "readings", "rebuilt_run"]

_MOST_READINGS = 64
"""Of an event's blobs, where copies contradict each other."""
_MOST_TRIES = 4_000_000
"""Of times before the first event: some seconds of it, and of computing. A run is begun some
milliseconds before at most."""

Names = list[tuple[str, str]]


def content_of(row: EventRow, names: Names) -> bytes:
    """What the row's hash covers, if these are its blobs."""
    return chained(
        run_seq=row.run_seq, epoch=row.epoch, kind=row.kind, type_=row.type, ver=row.ver,
        ts_us=row.ts_us, body=row.body.encode(), blobs=names,
    )  # fmt: skip


def readings(found: Salvage, seq: int) -> Iterator[Names]:
    """What the event's blobs may have been: all that copies of the rows say, longest first."""
    by_position = found.names.get(seq, {})
    copies = [sorted(by_position[pos]) for pos in sorted(by_position)]
    read = (
        list(names)
        for length in range(len(copies), -1, -1)
        for names in itertools.product(*copies[:length])
    )
    return itertools.islice(read, _MOST_READINGS)


def rebuilt_run(
    found: Salvage, run_id: int, hashes: Mapping[int, Mapping[int, bytes]]
) -> RunRow | None:
    """The run's row, if the first event proves one. ``hashes`` are those of the runs that it
    may be a fork of, by run and by ``run_seq``."""
    known = found.runs.get(run_id, set())
    uids = sorted(found.uids.get(run_id, set()) | {run.uid for run in known})
    numbers = [run_seq for run, run_seq in found.events if run == run_id]
    if not uids or not numbers:
        return None
    start = min(numbers) - 1
    # Runs that share the event agree in its hash: the oldest of them will do.
    forks = {of[start]: run for run, of in sorted(hashes.items(), reverse=True) if start in of}
    before: dict[bytes, int | None] = {**forks} if start else {b"": None}
    for row in found.events[run_id, start + 1]:
        contents = [content_of(row, names) for names in readings(found, row.seq)]
        tried = list(itertools.product(uids, before, contents))
        # Time by time, as the right one is near, and a wrong parent would be tried to the end.
        for created_us in [*_near(run.created_us for run in known)] or _before(row, len(tried)):
            for uid, parent, content in tried:
                if chain_hash(genesis_hash(uid, created_us, parent), content) == row.hash:
                    return RunRow(
                        run_id=run_id, uid=uid, created_us=created_us,
                        parent_run_id=before[parent], parent_seq=start or None,
                    )  # fmt: skip
    return None


def _near(times: Iterable[int]) -> Iterator[int]:
    """The times as they are, and with any one byte of theirs damaged."""
    for time in dict.fromkeys(times):
        yield time
        for shift in range(0, 56, 8):
            yield from ((time & ~(0xFF << shift)) | byte << shift for byte in range(256))


def _before(first: EventRow, tried: int) -> Sequence[int]:
    """Times before the first event, the last ones first; fewer where each is tried often."""
    return range(first.ts_us, first.ts_us - max(_MOST_TRIES // tried, 1000), -1)
