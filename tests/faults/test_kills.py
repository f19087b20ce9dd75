"""kill -9, thousands of times: no acknowledged append is lost, and the chain holds."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path

from events.errors import NotALog
from events.reader import LogReader
from tests.faults.writing import POINTS, Plan, check, write
from tests.thorough import THOROUGH


class Victims:
    """One log after another, each written by many processes that are killed in turn."""

    def __init__(self, folder: Path, processes: ForkServerContext, seed: int) -> None:
        self._folder, self._processes = folder, processes
        self.chance = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.acknowledged = 0
        self._longest_s = 0.06
        """Until a kill at a random time; a busy machine needs longer to get to work."""
        self._path, self._told = folder / "none", dict[int, str]()

    def next_log(self) -> None:
        self.acknowledged += len(self._told)
        self._path, self._told = self._folder / f"{self.kills.total()}.db", {}

    def kill(self, point: str | None) -> None:
        """Start a writer on the log, have it die, and look at what it left."""
        plan = Plan(
            name=f"{self._path.stem}-{self.kills.total()}", run=self._run(), point=point,
            backend=self.chance.choice(["asyncio", "trio"]),
            count=1 if point in POINTS[-3:] else self.chance.randint(1, 12),
            exchanges=10**9 if point is None else 8,
            checkpoint_pages=self.chance.choice([4, 1000]),
        )  # fmt: skip
        receiving, sending = self._processes.Pipe(duplex=False)
        process = self._processes.Process(target=write, args=(self._path, sending, plan))
        process.start()
        sending.close()
        if point is None:
            time.sleep(self.chance.uniform(0, self._longest_s))
            process.kill()
        told = len(self._told)
        try:
            while True:
                seq, text = receiving.recv()
                self._told[seq] = text
        except EOFError:
            receiving.close()
        if point is None and len(self._told) == told:
            self._longest_s *= 1.1
        process.join()
        assert process.exitcode == -9, f"{point}: {process.exitcode}"
        process.close()
        self.kills[point or "random"] += 1
        if self._run() is not None:
            check(self._path, self._told)
        assert self._run() is not None or not self._told

    def _run(self) -> int | None:
        """The log's run, if the file got so far as to have one."""
        if not self._path.exists():
            return None
        try:
            with LogReader(self._path) as reader:
                return 1 if reader.runs() else None
        except NotALog:
            return None


def test_kills_at_random_times(
    tmp_path: Path, processes: ForkServerContext, tell: Callable[[str], None]
) -> None:
    victims = Victims(tmp_path, processes, seed=1)
    for number in range(2000 if THOROUGH else 25):
        if number % 15 == 0:
            victims.next_log()
        victims.kill(None)
    victims.next_log()
    assert victims.acknowledged > 10, "the machine is too slow to kill anything at work"
    tell(f"random kills: {victims.kills.total()}, {victims.acknowledged} acknowledged appends")


def test_kills_at_named_points(
    tmp_path: Path, processes: ForkServerContext, tell: Callable[[str], None]
) -> None:
    victims = Victims(tmp_path, processes, seed=2)
    for number in range(1800 if THOROUGH else 27):
        if number % 15 == 0:
            victims.next_log()
        victims.kill(POINTS[number % len(POINTS)])
    victims.next_log()
    assert set(victims.kills) == set(POINTS)
    tell(f"kills at points: {dict(victims.kills)}, {victims.acknowledged} acknowledged appends")
