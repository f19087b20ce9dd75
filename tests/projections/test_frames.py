"""The flat tables: against the log's own views, and as other programs read them."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
import sys
from pathlib import Path

import anyio
import duckdb
import msgspec
import pytest
from click.testing import CliRunner, Result

from agents.replies.edits import edits_of
from engine.cli.exits import Exit, Failure
from engine.cli.main import cli
from engine.config import Config
from events.bodies import (
    AgentCalled,
    AgentReplied,
    CallParams,
    EvaluationFinished,
    NodeSelected,
    RunForked,
    Usage,
)
from events.connect import connect_read_only
from events.outcomes import KernelResources
from events.reader import LogReader
from events.writer import LogWriter
from projections.export.frames import Frames, columns, frames_of
from projections.run.overview import overview_of
from tests.histories.pins import histories
from tests.projections.rich import PRICE

RUNS = histories() | histories(older=True)
HISTORIES = sorted({path for path, _ in RUNS.values()})


def frames(*paths: Path) -> Frames:
    logs = [LogReader(path) for path in paths]
    found = frames_of(logs, edits_of)
    for log in logs:
        log.connection.close()
    return found


def export(*args: object) -> Result:
    return CliRunner().invoke(cli, ["export", *map(str, args)])


@pytest.mark.parametrize("table", ["nodes", "calls", "evaluations"])
@pytest.mark.parametrize("name", [*RUNS, "rich"])
def test_records_are_the_rows_of_the_view(name: str, table: str, rich: Path) -> None:
    path, run = RUNS.get(name, (rich, 1))
    found = frames(path)
    uid = found.runs[run - 1].run
    made = [msgspec.to_builtins(record) for record in getattr(found, table) if record.run == uid]
    connection = connect_read_only(path, views=True)
    connection.row_factory = sqlite3.Row
    order = "node" if table == "nodes" else "run_seq"
    query = f"SELECT * FROM {table} WHERE run_id = {run} ORDER BY {order}"
    rows = [dict(row) for row in connection.execute(query)]
    connection.close()
    assert {row.pop("run_id") for row in rows} <= {run}
    assert {row.pop("run") for row in made} <= {uid}
    assert made == rows
    assert [*map(list, made)] == [*map(list, rows)]


@pytest.mark.anyio
async def test_what_a_fork_shares_was_paid_at_its_parents_prices(
    rich: Path, tmp_path: Path
) -> None:
    """``free`` had no price when the parent called it; the fork has one, for its own calls."""
    path = Path(shutil.copy(rich, tmp_path / "log.db"))
    with LogReader(path) as reader:
        parent = list(reader.events(1))
    shared = next(e for e in parent if isinstance(e.body, NodeSelected) and e.body.attempt == 4)
    async with LogWriter(path) as log:
        run = log.fork(1, shared, "fork")
        config = msgspec.to_builtins(Config(model="m"))
        for body in (
            RunForked(
                parent="rich", at=shared.run_seq, config=config, changed={}, replies="live",
                evaluations="anew", prices={"free": PRICE}, versions={}, canned=False,
            ),
            AgentCalled(
                attempt=4, role="code", call=9, try_=1, window=[0], pool=[0], model="free",
                params=CallParams(max_tokens=9), template="main",
            ),
            AgentReplied(
                attempt=4, role="code", call=9, try_=1, latency_ms=1, stop_reason="end_turn",
                usage=Usage(input_tokens=1_000_000), served_by="m-1", sent={},
                reply_sha256="0" * 64,
            ),
        ):  # fmt: skip
            last = log.append(run, body)
        await log.durable(last)
    connection = connect_read_only(path, views=True)
    query = "SELECT model, usd_micros FROM calls WHERE state = 'replied' AND run_id = "
    rows = {run: connection.execute(f"{query}{run} ORDER BY run_seq").fetchall() for run in (1, 2)}
    (code,) = connection.execute(
        "SELECT usd_micros, unpriced_calls FROM costs_by_role WHERE run_id = 2 AND role = 'code'"
    )
    connection.close()
    assert rows[2][-2:] == [("free", None), ("free", 3_000_000)]
    assert rows[2][:-1] == rows[1][: len(rows[2]) - 1]
    made = [record for record in frames(path).calls if record.run == "fork"]
    told = [(record.model, record.usd_micros) for record in made if record.state == "replied"]
    assert told == rows[2]
    with LogReader(path) as reader:
        spent = overview_of(reader.events(2)).spend.roles["code"]
    assert (spent.usd_micros, spent.unpriced_calls) == code


def test_a_run_is_one_row(rich: Path) -> None:
    (run,) = frames(rich).runs
    assert (run.run, run.task, run.status, run.device) == ("rich", "rich.py", "interrupted", "auto")
    assert (run.attempts, run.abandoned, run.compiled, run.correct) == (6, 1, 4, 3)
    assert (run.eager_ms, run.best_node, run.best_speedup) == (10.0, 5, 2.5)
    assert (run.unpriced_calls, run.usd_micros) == (1, 10 * 409 + 225), "and a failed try"


def test_registers_are_those_of_the_kernel_that_takes_most(rich: Path) -> None:
    records = frames(rich).evaluations
    assert {(r.outcome, r.registers, r.spill_bytes) for r in records} == {
        ("correct", 64, 32), ("compile_failed", None, None), ("wrong_result", None, None),
    }  # fmt: skip
    asked = (
        "SELECT count(*) FROM evaluations, json_each(resources) WHERE value ->> 'registers' > 40"
    )
    told = CliRunner().invoke(cli, ["sql", str(rich), asked, "--csv"]).stdout
    assert told.split() == ["count(*)", str(sum(r.outcome == "correct" for r in records))]


def test_columns_are_what_data_frames_are_made_of(rich: Path) -> None:
    softmax = next(path for path in HISTORIES if "softmax" in path.stem)
    nodes = columns(frames(rich, softmax).nodes)
    assert list(nodes)[:3] == ["run", "node", "parent"]
    assert {len(values) for values in nodes.values()} == {8 + 15}
    assert "try" in columns(frames(rich).calls)
    assert columns([]) == {}


def test_many_logs_become_tables(rich: Path, tmp_path: Path) -> None:
    logs = [*HISTORIES, rich.parent]
    whole = frames(*HISTORIES, rich)
    for form in ("jsonl", "csv", "parquet"):
        done = export(*logs, "--format", form, "-o", tmp_path / form)
        assert done.exit_code == 0, done.exception
        assert f"calls.{form}: {len(whole.calls)} rows" in done.stderr
        assert len(list((tmp_path / form).iterdir())) == 6, "nothing half-written is left"
    calls = list(map(json.loads, (tmp_path / "jsonl" / "calls.jsonl").read_text().splitlines()))
    assert calls == [msgspec.to_builtins(call) for call in whole.calls]
    with (tmp_path / "csv" / "nodes.csv").open(newline="") as file:
        nodes = list(csv.DictReader(file))
    assert [node["source_sha256"] or None for node in nodes] == [
        node.source_sha256 for node in whole.nodes
    ]
    for table in Frames.__struct_fields__:
        with duckdb.connect() as connection:
            stored = connection.execute(f"FROM '{tmp_path}/parquet/{table}.parquet'")
            names = [column[0] for column in stored.description]
            rows = [dict(zip(names, row, strict=True)) for row in stored.fetchall()]
        same = [msgspec.to_builtins(record) for record in getattr(whole, table)]
        for row in (*rows, *same):
            row.pop("log", None)
        assert rows == same


@pytest.mark.anyio
async def test_a_figure_that_a_candidate_made_up_spoils_no_table(
    rich: Path, tmp_path: Path
) -> None:
    """As logs have them from before such figures were dropped."""
    path = Path(shutil.copy(rich, tmp_path / "log.db"))
    with LogReader(path) as reader:
        events = [event.body for event in reader.events(1)]
    last = next(b for b in reversed(events) if isinstance(b, EvaluationFinished) and b.resources)
    made_up = KernelResources(kernel="huge", registers=2**64 - 1, stack_bytes=10**30)
    async with LogWriter(path) as log:
        body = msgspec.structs.replace(last, resources=[made_up])
        await log.durable(log.append(1, body))
    done = await anyio.to_thread.run_sync(
        lambda: export(path, "--format", "parquet", "-o", tmp_path / "out")
    )
    assert done.exit_code == 0, done.exception
    with duckdb.connect() as connection:
        found = connection.execute(
            f"SELECT registers, spill_bytes, resources FROM '{tmp_path}/out/evaluations.parquet'"
            " ORDER BY run_seq DESC LIMIT 1"
        ).fetchone()
    assert found is not None
    assert found[:2] == (None, 0)
    assert str(2**64 - 1) in found[2]


def test_what_is_missing_is_named(
    rich: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = export(rich, "-o", tmp_path / "out").exception
    assert "--format" in str(error)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    error = export(rich, "--format", "parquet", "-o", tmp_path / "out").exception
    assert isinstance(error, Failure)
    assert error.code == Exit.MISSING
    assert "stark-engine[analysis]" in str(error)
    assert not (tmp_path / "out").exists()
