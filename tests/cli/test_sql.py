"""``engine sql``: what it answers, refuses and explains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.cli.exits import Failure
from engine.cli.main import cli

LOG = Path(__file__).parents[1] / "histories" / "0.1" / "stark_softmax_h200.db"


def ask(*args: object) -> Result:
    return CliRunner().invoke(cli, ["sql", str(LOG), *map(str, args)])


def test_rows_as_a_table_json_and_csv() -> None:
    query = "SELECT node, outcome, runtime_ms FROM nodes WHERE node IN (1, 3)"
    table = ask(query).stdout.splitlines()
    assert table[0].split("|")[1].strip() == "node"
    assert table[3].split() == ["|", "3", "|", "wrong_result", "|", "|"]
    one, three = map(json.loads, ask(query, "--json").stdout.splitlines())
    assert (one["node"], three) == (1, {"node": 3, "outcome": "wrong_result", "runtime_ms": None})
    assert ask(query, "--csv").stdout.splitlines()[::2] == [
        "node,outcome,runtime_ms", "3,wrong_result,",
    ]  # fmt: skip


def test_stored_texts_are_unpacked() -> None:
    (row,) = ask(
        "SELECT text(source_sha256) AS source, text(NULL) AS none FROM nodes WHERE node = 1",
        "--json",
    ).stdout.splitlines()
    assert "class ModelNew" in json.loads(row)["source"]
    assert json.loads(row)["none"] is None
    assert "is missing" in ask(f"SELECT text('{'0' * 64}') AS t", "--json").stdout


def test_people_get_a_part_and_are_told() -> None:
    query = "SELECT seq FROM events"
    shown = ask(query, "--limit", 3)
    assert len(shown.stdout.splitlines()) == 5
    assert "--limit 0" in shown.stderr
    assert len(ask(query, "--limit", 0).stdout.splitlines()) == 157
    assert len(ask(query, "--json").stdout.splitlines()) == 155


def test_without_a_query_the_views_are_listed() -> None:
    assert "in_doubt" in ask().stdout
    metadata = json.loads(ask("--datasette-metadata").stdout)
    assert "nodes" in metadata["databases"][LOG.stem]["tables"]
    for query in metadata["databases"][LOG.stem]["queries"].values():
        assert ask(query["sql"], "--json").stdout


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT foo FROM nodes", "no such column: foo\nWithout a query"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("DELETE FROM events", "can only read"),
        ("ATTACH '/tmp/x.db' AS x", "can only read"),
        ("CREATE TEMP TABLE t (a)", "can only read"),
        ("PRAGMA journal_mode", "can only read"),
        ("SELEKT", "syntax error"),
    ],
)
def test_what_can_not_be_asked_is_explained(query: str, told: str) -> None:
    error = ask(query).exception
    assert isinstance(error, Failure)
    assert told in str(error)


def test_a_run_and_two_formats_are_refused() -> None:
    assert "one of --json and --csv" in str(ask("SELECT 1", "--json", "--csv").exception)
    error = CliRunner().invoke(cli, ["sql", f"{LOG}#1", "SELECT 1"]).exception
    assert "WHERE run_id" in str(error)
