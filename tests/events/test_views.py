"""The views of a log: in the file itself, or brought along by a reader of an older one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from events.bodies import (
    AgentCalled,
    AgentFailed,
    BaselineRequested,
    Body,
    CallParams,
    EvaluationFaulted,
    EvaluationRequested,
    PromptRendered,
    RunResumed,
)
from events.connect import connect_read_only
from events.reader import LogReader
from events.verify import verify_log
from events.writer import LogWriter

pytestmark = pytest.mark.anyio

VIEWS = {
    "history", "nodes", "calls", "evaluations", "baselines", "best_over_time", "costs_by_role",
    "in_doubt", "blobs", "event_blobs",
}  # fmt: skip
HISTORIES = Path(__file__).parents[1] / "histories"
HISTORY = HISTORIES / "0.1" / "stark_softmax_h200.db"


def called(call: int, try_: int = 1) -> Body:
    return AgentCalled(
        attempt=1, role="plan", call=call, try_=try_, window=[], pool=[], model="m",
        params=CallParams(max_tokens=1), template="main",
    )  # fmt: skip


def sent(call: int, try_: int = 1) -> Body:
    return PromptRendered(
        attempt=1, role="plan", call=call, try_=try_, request_sha256="0" * 64, parts=[]
    )


def rows(connection: sqlite3.Connection, query: str) -> list[dict[str, object]]:
    connection.row_factory = sqlite3.Row
    return [dict(row) for row in connection.execute(query)]


async def test_a_new_log_holds_its_views_and_is_intact(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path) as log:
        await log.durable(log.append(log.create_run("ab"), BaselineRequested()))
    with sqlite3.connect(path) as plain:  # as any other program would open it
        names = plain.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
        assert {name for (name,) in names} == VIEWS
        for view in VIEWS:
            plain.execute(f"SELECT * FROM {view}").fetchall()
    plain.close()
    with LogReader(path) as reader:
        assert verify_log(reader).problems == []


async def test_an_older_log_gets_them_for_the_connection_only() -> None:
    before = HISTORY.read_bytes()
    connection = connect_read_only(HISTORY, views=True)
    assert len(rows(connection, "SELECT * FROM nodes")) == 15
    assert rows(connection, "SELECT count(*) AS n FROM calls WHERE parsed")[0]["n"] == 27
    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        connection.execute("DROP VIEW temp.nodes")
    connection.close()
    assert HISTORY.read_bytes() == before


async def test_requests_without_an_answer_are_in_doubt(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    failed = AgentFailed(
        attempt=1, role="plan", call=1, try_=1, error="timed_out", message="", retryable=True
    )
    request = EvaluationRequested(attempt=1, source_sha256="0" * 64, seed=1)
    async with LogWriter(path) as log:
        run = log.create_run("ab")
        asked = (called(1), sent(1), failed, called(1, 2), sent(1, 2), called(2), sent(2))
        for body in (*asked, called(3), request):
            log.append(run, body)
        fault = EvaluationFaulted(attempt=1, try_=1, message="no")
        log.append(run, fault)
        await log.durable(log.append(run, EvaluationRequested(
            attempt=1, source_sha256="0" * 64, seed=1, try_=2)))  # fmt: skip
    async with LogWriter(path) as log:  # another process: it asks the second call anew
        # The third had waited for its turn, and so does its next try.
        resumed = RunResumed(versions={}, unsent=[3])
        for body in (resumed, called(2, 2), sent(2, 2), called(3, 2)):
            await log.durable(log.append(run, body))
    connection = connect_read_only(path, views=True)
    found = rows(connection, "SELECT * FROM in_doubt ORDER BY run_seq")
    connection.close()
    told = [(r["request"], r["call"], r["try"], r["asker_gone"], r["asked_again"]) for r in found]
    assert told == [
        ("call", 1, 2, 1, 0), ("call", 2, 1, 1, 1), ("evaluation", None, 2, 1, 0),
        ("call", 2, 2, 0, 0),
    ]  # fmt: skip


async def test_a_fork_shows_what_it_shares(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes((HISTORIES / "stark_workers.db").read_bytes())
    async with LogWriter(path) as log:
        with LogReader(path) as reader:
            (at,) = reader.events(1, after=30, upto=31)
        await log.durable(log.append(log.fork(1, at, "fork"), BaselineRequested()))
    connection = connect_read_only(path, views=True)
    own = rows(connection, "SELECT run_seq, seq FROM history WHERE run_id = 2 ORDER BY run_seq")
    assert [row["run_seq"] for row in own] == list(range(1, 33))
    assert own[0]["seq"] == 1
    shared = rows(connection, "SELECT node FROM nodes WHERE run_id = 2")
    assert 1 < len(shared) < 15
    connection.close()
