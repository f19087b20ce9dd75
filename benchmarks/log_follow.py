"""How far behind the writer is ``engine tail --follow``, and what does it cost?

This process appends; ``engine tail --follow --json`` runs beside it as a user would start
it. Latency is from the moment when ``durable`` returns to the writer until a thread here has
read the event's whole line from the follower's standard output.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median, quantiles

import anyio

from benchmarks.log_events import reply
from benchmarks.table import Table
from events.envelope import Blob
from events.writer import LogWriter

__all__ = ["measure"]

_EVENTS = 400
_MEAN_GAP_S = 0.04
_REPLY = "x = tl.load(pointer)\n" * 50


def measure(table: Table, scratch: Path) -> None:
    """Add the row."""
    table.progress("a follower beside a writer")
    latencies_ms, cpu = anyio.run(_follow, scratch / "follow.db")
    p50, p95 = median(latencies_ms), quantiles(latencies_ms, n=20)[-1]
    table.row(
        "follower latency at a 10 ms poll", "p50 ≤ 6 ms, CPU ≤ 4 %",
        f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, CPU {100 * cpu:.1f} %",
        table.verdict(p50 <= 6 and cpu <= 0.04),
    )  # fmt: skip


async def _follow(path: Path) -> tuple[list[float], float]:
    """Latencies, and the follower's CPU seconds a second, at 25 events of 1 KB a second."""
    acknowledged: dict[int, int] = {}
    seen: dict[int, int] = {}
    chance = random.Random(0)
    async with LogWriter(path) as log:
        run = log.create_run("follow")
        await log.durable(log.append(run, reply(0), [Blob.text("reply", _REPLY)]))
        follower = subprocess.Popen(  # noqa: ASYNC220 (it returns at once)
            [sys.executable, "-m", "engine.cli.main", "tail", str(path), "--follow", "--json"],
            stdout=subprocess.PIPE,
        )
        reading = threading.Thread(target=_read, args=(follower, seen))
        reading.start()
        while not seen:  # noqa: ASYNC110 (its imports are no part of the measurement)
            await anyio.sleep(0.05)
        began, cpu_before = time.monotonic(), _cpu_s(follower.pid)
        for number in range(1, _EVENTS + 1):
            # Not in step with the poll: a fixed gap would always hit the same phase.
            await anyio.sleep(chance.expovariate(1 / _MEAN_GAP_S))
            event = log.append(run, reply(number), [Blob.text("reply", f"{_REPLY}{number}")])
            await log.durable(event)
            acknowledged[event.seq] = time.monotonic_ns()
        await anyio.sleep(0.1)
        cpu = (_cpu_s(follower.pid) - cpu_before) / (time.monotonic() - began)
    await anyio.to_thread.run_sync(reading.join)  # it ends by itself: nobody writes any more
    follower.wait()
    return [(seen[seq] - at) / 1e6 for seq, at in acknowledged.items()], cpu


def _read(follower: subprocess.Popen[bytes], seen: dict[int, int]) -> None:
    assert follower.stdout is not None
    for line in follower.stdout:
        now = time.monotonic_ns()
        seen[json.loads(line)["seq"]] = now


def _cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
