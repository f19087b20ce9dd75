"""Rebuilding the tree from a log of 1,000,000 events, beside reading its raw rows.

Each reading is a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import anyio
import msgspec

from benchmarks.log_world import World
from benchmarks.table import Table
from engine.config import Search
from events.bodies import Body, PromptRendered
from events.envelope import Event
from events.reader import LogReader
from events.writer import LogWriter
from projections.search.tree import Tree, fold_tree

__all__ = ["measure"]

_EVENTS = 1_000_000
_FEW_ATTEMPTS = 9_000
_REPEATED = 25
"""A log with as many nodes has each of its notes so many times."""
_ROUNDS = 5
_STEP = 100


class _Read(msgspec.Struct):
    seconds: float
    peak_mb: float
    found: int
    """Rows, or nodes."""


def measure(table: Table, scratch: Path) -> None:
    """Add a row for speed and one for memory."""
    whole, few, padded = (scratch / f"{name}.db" for name in ("whole", "few", "padded"))
    table.progress(f"writing a log of {_EVENTS} events")
    anyio.run(_write, whole, _EVENTS, None, 1)
    rounds = []
    for number in range(_ROUNDS):
        table.progress(f"rebuilding the tree: round {number + 1} of {_ROUNDS}")
        rounds.append((_read("raw", whole), _read("tree", whole)))
    ratio = median(raw.seconds / tree.seconds for raw, tree in rounds)
    raw, tree = rounds[-1]
    table.row(
        "tree from 1,000,000 events / raw rows", "≥ 0.35",
        f"{ratio:.2f} ({raw.found / median(tree.seconds for _, tree in rounds):.0f} events a"
        f" second, {whole.stat().st_size / raw.found:.0f} B each)",
        table.verdict(ratio >= 0.35),
    )  # fmt: skip
    table.progress("writing two logs of equally many nodes")
    anyio.run(_write, few, None, _FEW_ATTEMPTS, 1)
    anyio.run(_write, padded, None, _FEW_ATTEMPTS, _REPEATED)
    small, large = _read("tree", few), _read("tree", padded)
    more = _read("raw", padded).found / _read("raw", few).found
    kb = (tree.peak_mb - small.peak_mb) * 1000 / (tree.found - small.found)
    table.row(
        "memory of that", "by nodes, not by events",
        f"{kb:.1f} KB a node; {more:.1f}× the events, same nodes:"
        f" {large.peak_mb - small.peak_mb:+.1f} MB",
        table.verdict(large.peak_mb - small.peak_mb < 2),
    )  # fmt: skip


async def _write(path: Path, events: int | None, attempts: int | None, repeated: int) -> None:
    """A search of so many events or attempts, every note ``repeated`` times."""
    async with LogWriter(path) as log:
        run, written = log.create_run("rebuild"), list[Event]()

        def append(body: Body) -> None:
            for _ in range(repeated if isinstance(body, PromptRendered) else 1):
                if events is None or not written or written[0].seq < events:
                    written[:] = [log.append(run, body)]

        world = World(Search(), append)
        while (events is not None and written[0].seq < events) or (
            attempts is not None and world.state.attempts_ended < attempts
        ):
            world.grow(_STEP)
            await log.durable(written[0])


def _read(what: str, path: Path) -> _Read:
    command = [sys.executable, "-m", "benchmarks.log_rebuild", what, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=_Read)


def _rows(path: Path) -> int:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    return sum(1 for _ in connection.execute("SELECT * FROM events ORDER BY seq"))


def _nodes(path: Path) -> int:
    with LogReader(path) as log:
        return len(fold_tree(log.bodies(1, Tree.FOLDS)).nodes)


def _peak_mb() -> float:
    # Not from getrusage: that one begins with what the parent had when it forked.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000


if __name__ == "__main__":
    began = time.perf_counter()
    found = {"raw": _rows, "tree": _nodes}[sys.argv[1]](Path(sys.argv[2]))
    seconds = time.perf_counter() - began
    print(msgspec.json.encode(_Read(seconds, _peak_mb(), found)).decode())
