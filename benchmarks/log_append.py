"""Durable appends beside raw sqlite3, eventsourcing's recorder and LangGraph's checkpointer.

Every side is a process of its own that stays open (``log_sides``) and measures only when it
is its turn: a round goes once through all of them, a figure is the median over the rounds,
and a ratio or difference is taken within a round, where the machine was the same.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.table import Table

__all__ = ["measure"]

_HERE = Path(__file__).resolve().parent
_PEERS_PYTHON = _HERE.parent / ".venv-peers" / "bin" / "python"
_OURS = ("asyncio", "trio")
_PEERS = ("eventsourcing", "langgraph")
_ROUNDS = 15
_SEQUENTIAL, _CONCURRENT = 200, 6400
_WARM_UP = 1500
"""SQLite's -wal grows for so many commits and is overwritten from then on, which is faster."""

Times = Mapping[tuple[str, str], float]
"""Milliseconds an event in one round, by side and shape."""


def measure(table: Table, scratch: Path) -> None:
    """Add the rows."""
    if not _PEERS_PYTHON.exists():
        sys.exit(f"{_PEERS_PYTHON} is missing: make bench-log installs the peers")
    with ExitStack() as opened:
        sides = {
            side: opened.enter_context(_side(side, scratch))
            for side in ("raw", "threaded", *_OURS, *_PEERS)
        }
        table.progress("appends: warming up")
        for side in sides.values():
            side("sequential", _WARM_UP)
        rounds = []
        for number in range(_ROUNDS):
            table.progress(f"appends: round {number + 1} of {_ROUNDS}")
            rounds.append(_round(sides))
    _rows(table, rounds)


def _round(sides: Mapping[str, Callable[[str, int], float]]) -> Times:
    times = {(name, "sequential"): side("sequential", _SEQUENTIAL) for name, side in sides.items()}
    for name in _OURS:
        times[name, "concurrent"] = sides[name]("concurrent", _CONCURRENT)
    return times


def _rows(table: Table, rounds: list[Times]) -> None:
    def over(of: Callable[[Times], float]) -> float:
        return median(of(times) for times in rounds)

    def added_by(side: str) -> float:
        return over(lambda times: times[side, "sequential"] - times["raw", "sequential"])

    def rate(side: str, shape: str, peer: str) -> float:
        return over(lambda times: times[peer, "sequential"] / times[side, shape])

    raw_ms = over(lambda times: times["raw", "sequential"])
    added = [added_by(side) for side in _OURS]
    floor_ms = added_by("threaded")
    table.row(
        "sequential append: added to raw sqlite3", "≤ 0.2 ms, both backends",
        f"asyncio {added[0]:.2f}, trio {added[1]:.2f} ms (raw {raw_ms:.2f} ms;"
        f" a thread alone adds {floor_ms:.2f})",
        table.verdict(max(added) <= 0.2),
    )  # fmt: skip
    for name, peer, shape, goal, backends in (
        ("64 appenders / raw sqlite3 one at a time", "raw", "concurrent", 6, _OURS),
        ("64 appenders / eventsourcing one at a time", "eventsourcing", "concurrent", 10, _OURS),
        ("sequential / LangGraph aput", "langgraph", "sequential", 2, _OURS[:1]),
    ):
        ratios = {side: rate(side, shape, peer) for side in backends}
        told = ", ".join(f"{side} {ratio:.1f}" for side, ratio in ratios.items())
        if shape == "concurrent":
            told += f" ({over(lambda times: 1000 / times['asyncio', 'concurrent']):.0f} a second)"
        else:
            # No log that leaves the event loop free can be faster than that.
            told += f" (raw sqlite3 behind a thread {rate('threaded', 'sequential', peer):.1f})"
        table.row(
            name, f"≥ {goal}", told,
            table.verdict(min(ratios.values()) >= goal),
        )  # fmt: skip


@contextmanager
def _side(name: str, scratch: Path) -> Iterator[Callable[[str, int], float]]:
    """A function that has the side append and returns milliseconds an event."""
    python = str(_PEERS_PYTHON) if name in _PEERS else sys.executable
    process = subprocess.Popen(
        [python, str(_HERE / "log_sides.py"), name, str(scratch / f"append_{name}.db")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    commands, answers = process.stdin, process.stdout

    def appended(shape: str, count: int) -> float:
        print(shape, count, file=commands, flush=True)
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"{name} ended with {process.wait()}")
        return float(answer) * 1000 / count

    with process:
        yield appended
        commands.close()
