"""Append, group, crash, reopen and read in any order, against a list."""

from __future__ import annotations

import itertools
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from events.errors import NotALog
from events.reader import LogReader
from events.verify import verify_log
from tests.faults.conftest import LONG
from tests.faults.writing import obey


class LogMachine(RuleBasedStateMachine):
    """``rows`` is the list: (run, text) in order, those before ``acknowledged`` for sure."""

    processes: ForkServerContext
    folder: Path
    number = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.path = self.folder / f"{next(self.number)}.db"
        self.rows: list[tuple[int, str]] = []
        self.acknowledged = 0
        self.runs = 0
        self.names = itertools.count()
        self.backends = itertools.cycle(["asyncio", "trio"])
        self._open()

    def _open(self) -> None:
        self.orders, theirs = self.processes.Pipe()
        self.process = self.processes.Process(
            target=obey, args=(self.path, next(self.backends), theirs)
        )
        self.process.start()
        theirs.close()

    def _order(self, *order: Any) -> Any:
        self.orders.send(order)
        return self.orders.recv()

    def _create(self) -> None:
        self.runs += 1
        assert self._order("create", f"{next(self.names):x}") == self.runs

    @rule()
    def create_run(self) -> None:
        self._create()

    # Nothing here may depend on how many runs there are: a kill decides that by chance.
    @rule(which=st.integers(0, 99), count=st.integers(1, 30), size=st.integers(0, 3000),
          wait=st.booleans())  # fmt: skip
    def append(self, which: int, count: int, size: int, wait: bool) -> None:
        if not self.runs:
            self._create()
        run = 1 + which % self.runs
        texts = [f"{next(self.names)}" for _ in range(count)]
        self.rows += [(run, text) for text in texts]
        assert self._order("append", run, texts, size, wait) == len(self.rows)
        if wait:
            self.acknowledged = len(self.rows)

    @rule()
    def crash(self) -> None:
        self.process.kill()
        self.process.join()
        self.rows = self._read()
        self.acknowledged = len(self.rows)
        self._open()

    @rule()
    def reopen(self) -> None:
        assert self._order("close") == "closed"
        self.process.join()
        self.acknowledged = len(self.rows)
        assert self._read() == self.rows
        self._open()

    @rule()
    def read(self) -> None:
        self._read()

    def _read(self) -> list[tuple[int, str]]:
        """What is in the file: all that was acknowledged, and a beginning of the rest."""
        if not self.path.exists():
            self.runs = 0  # killed before it was begun
            return []
        try:
            with LogReader(self.path) as reader:
                assert verify_log(reader).problems == []
                runs = len(reader.runs())
                events = [e for run in reader.runs() for e in reader.events(run.run_id)]
        except NotALog:
            runs, events = 0, []  # killed before the first statement
        if not self.process.is_alive():
            self.runs = runs
        found = [
            (event.run_id, event.body.source)  # type: ignore[attr-defined]
            for event in sorted(events, key=lambda event: event.seq)
        ]
        assert self.acknowledged <= len(found)
        assert found == self.rows[: len(found)]
        return found

    def teardown(self) -> None:
        self.process.kill()
        self.process.join()
        self.orders.close()


def test_the_log_is_a_list(tmp_path: Path, processes: ForkServerContext) -> None:
    LogMachine.processes, LogMachine.folder = processes, tmp_path
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LogMachine,
        settings=settings(
            max_examples=200 if LONG else 10, stateful_step_count=40 if LONG else 15,
            deadline=None, suppress_health_check=list(HealthCheck), database=None,
        ),
    )  # fmt: skip
