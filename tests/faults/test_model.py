"""Append, group, fork, crash, reopen and read in any order, against a list."""

from __future__ import annotations

import itertools
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from events.errors import NotALog
from events.reader import LogReader, RunRow
from events.verify import verify_log
from tests.faults.writing import obey
from tests.thorough import THOROUGH

pytestmark = pytest.mark.process


class LogMachine(RuleBasedStateMachine):
    """``rows`` is the list: (run, text) in order, those before ``acknowledged`` for sure.

    ``parents`` are the runs in order: None, or for a fork its (parent, how many of its
    parent's events it shares). A run is in the file from its first event on.
    """

    processes: ForkServerContext
    folder: Path
    number = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.path = self.folder / f"{next(self.number)}.db"
        self.rows: list[tuple[int, str]] = []
        self.acknowledged = 0
        self.parents: list[tuple[int, int] | None] = []
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

    def _uid(self) -> str:
        return f"{next(self.names):x}"

    def _create(self) -> None:
        self.parents.append(None)
        assert self._order("create", self._uid()) == len(self.parents)

    def _history(self, run: int) -> list[tuple[tuple[int, int], str]]:
        """What the run consists of: whose event, at which place of that run, and its text."""
        parent = self.parents[run - 1]
        shared = self._history(parent[0])[: parent[1]] if parent else []
        own = [text for owner, text in self.rows if owner == run]
        return shared + [((run, len(shared) + at), text) for at, text in enumerate(own, 1)]

    @rule()
    def create_run(self) -> None:
        self._create()

    # Nothing here may depend on how many runs there are: a kill decides that by chance.
    @rule(which=st.integers(0, 99), count=st.integers(1, 30), size=st.integers(0, 3000),
          wait=st.booleans())  # fmt: skip
    def append(self, which: int, count: int, size: int, wait: bool) -> None:
        if not self.parents:
            self._create()
        run = 1 + which % len(self.parents)
        texts = [f"{next(self.names)}" for _ in range(count)]
        self.rows += [(run, text) for text in texts]
        assert self._order("append", run, texts, size, wait) == len(self.rows)
        if wait:
            self.acknowledged = len(self.rows)

    @rule(which=st.integers(0, 99), where=st.integers(0, 999), count=st.integers(1, 5),
          wait=st.booleans())  # fmt: skip
    def fork(self, which: int, where: int, count: int, wait: bool) -> None:
        """Of any event of any run, shared ones too; then the fork's first events, or none."""
        parent = 1 + which % max(1, len(self.parents))
        history = self._history(parent) if self.parents else []
        if not history:
            return
        at = 1 + where % len(history)
        owner, _ = history[at - 1]
        self.parents.append((parent, at))
        run = len(self.parents)
        assert self._order("fork", parent, at, owner, self._uid()) == run
        if where % 3:
            self.append(run - 1, count, where, wait)

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
        runs, stories, own = [], [], []
        with suppress(NotALog, FileNotFoundError):  # killed before the first statement
            self.path.stat()
            with LogReader(self.path) as reader:
                assert verify_log(reader).problems == []
                reader.connection.execute("BEGIN")  # one moment, also while it is written
                runs = reader.runs()
                stories = [_texts(reader, run) for run in runs]
                own = [event for run in runs for event in reader.events(run.run_id)
                       if event.run_id == run.run_id]  # fmt: skip
        found = [
            (event.run_id, event.body.source)  # type: ignore[attr-defined]
            for event in sorted(own, key=lambda event: event.seq)
        ]
        assert self.acknowledged <= len(found)
        assert found == self.rows[: len(found)]
        # Runs are numbered without gaps, so one without an event is there if a later one is.
        assert len(runs) == max((run for run, _ in found), default=0)
        for run, story in zip(runs, stories, strict=True):
            parent = self.parents[run.run_id - 1]
            assert (run.parent_run_id, run.parent_seq) == (parent or (None, None))
            wanted = [text for _, text in self._history(run.run_id)]
            assert story == wanted[: len(story)]
            assert len(story) >= (parent[1] if parent else 0)
        if not self.process.is_alive():
            del self.parents[len(runs) :]
        return found

    def teardown(self) -> None:
        self.process.kill()
        self.process.join()
        self.orders.close()


def _texts(reader: LogReader, run: RunRow) -> list[str]:
    return [event.body.source for event in reader.events(run.run_id)]  # type: ignore[attr-defined]


def test_the_log_is_a_list(tmp_path: Path, processes: ForkServerContext) -> None:
    LogMachine.processes, LogMachine.folder = processes, tmp_path
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LogMachine,
        settings=settings(
            max_examples=200 if THOROUGH else 10, stateful_step_count=40 if THOROUGH else 15,
            deadline=None, suppress_health_check=list(HealthCheck), database=None,
        ),
    )  # fmt: skip
