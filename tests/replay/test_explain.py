"""A difference is explained: what differs, and by the evidence why. Each cause is provoked."""

from __future__ import annotations

import json
import sqlite3
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from engine.cli.analyse.replay import replay as replay_command
from engine.core import policies
from engine.core.policies import Selection, stark
from engine.core.state import State
from engine.loop.start import engine_version
from events.bodies import (
    AgentCalled,
    Body,
    Draws,
    EvaluationFinished,
    NodeSelected,
    RunForked,
    RunPaused,
    RunStarted,
)
from events.envelope import Event
from events.reader import LogReader
from tests.cli.conftest import run_engine
from tests.replay.rewriting import HISTORY, edited, rewritten

pytestmark = pytest.mark.anyio

FORKED = HISTORY.with_name("forked.db")
"""Run 2 forks from run 1 at event 40, run 3 from run 2 at 50."""
NODE_7 = "UPDATE events SET body = json_set(body, '$.node', 7) WHERE"
SIXTH = "type = 'NodeSelected' AND json_extract(body, '$.attempt') = 6"


def explained(log: Path) -> tuple[dict[str, Any], dict[str, str], str]:
    """The difference, the causes by name as ``likely: evidence``, and what people read."""
    told = CliRunner().invoke(replay_command, [str(log), "--verify", "--json"])
    assert told.exit_code == 5, told.output
    data = json.loads(told.stdout)
    causes = {c["cause"]: f"{c['likely']}: {c['evidence']}" for c in data["causes"]}
    words = CliRunner().invoke(replay_command, [str(log), "--verify"])
    assert (words.exit_code, words.stdout) == (5, "")
    return data["difference"], causes, words.stderr


def position(bodies: list[Body], type_: type[Body], attempt: int) -> int:
    """Where the first body of this type and attempt stands, from 0."""
    found = (i for i, b in enumerate(bodies) if isinstance(b, type_))
    return next(i for i in found if bodies[i].attempt == attempt)  # type: ignore[attr-defined]


def selection(attempt: int) -> Event:
    """An attempt's selection in the history."""
    with LogReader(HISTORY) as reader:
        return next(
            event
            for event in reader.events(1)
            if isinstance(event.body, NodeSelected) and event.body.attempt == attempt
        )


def selecting_the_newest(state: State, attempt: int) -> Selection | None:
    """A policy as another engine might have it."""
    nodes = [node.id for node in state.tree.nodes.values() if node.evaluated]
    return Selection(node=nodes[-1], rule="exploit", draws=Draws(), eligible=len(nodes))


async def test_an_edited_decision(tmp_path: Path) -> None:
    log = edited(
        tmp_path / "log.db",
        f"UPDATE events SET body = json_set(body, '$.node', 7, '$.draws.coin', 5) WHERE {SIXTH}",
    )
    fifth, sixth = selection(5), selection(6)
    assert isinstance(sixth.body, NodeSelected)
    node, coin, at = sixth.body.node, sixth.body.draws.coin, sixth.run_seq
    difference, causes, words = explained(log)
    assert (difference["run_seq"], difference["what"]) == (at, "changed")
    assert difference["logged_type"] == difference["computed_type"] == "NodeSelected"
    assert {f["field"]: (f["logged"], f["computed"]) for f in difference["fields"]} == {
        "node": (7, node),
        "draws.coin": (5, coin),
    }
    assert (difference["logged"]["node"], difference["computed"]["node"]) == (7, node)
    assert difference["logged_digest"] == difference["computed_digest"]
    assert difference["agreed"]["run_seq"] == at - 1
    assert difference["agreed"]["digest_seq"] == fifth.run_seq
    broken = f"yes: the run's hash chain does not hold at event {at}"
    assert causes["edited log"].startswith(broken)
    assert causes["nondeterministic policy"].startswith("no")
    assert next(iter(causes)) == "edited log"
    assert f"replay differs at event {at}: NodeSelected is recorded" in words
    assert f"| draws.coin | 5        | {coin} |" in words
    assert "recorded and computed: what led here is as it was" in words
    assert f"last agreeing  event {at - 1}, EvaluationFinished; digest v3:" in words


async def test_an_edited_fact_shows_in_the_next_digest(tmp_path: Path) -> None:
    log = edited(
        tmp_path / "log.db",
        "UPDATE events SET body = json_set(body, '$.outcome.runtime_ms', 0.001)"
        ' WHERE seq = (SELECT min(seq) FROM events WHERE body LIKE \'%"type":"correct"%\')',
        of=HISTORY.with_name("stark.db"),  # selections follow
    )
    difference, causes, words = explained(log)
    assert difference["logged_type"] == "NodeSelected"
    assert "state_digest" in [field["field"] for field in difference["fields"]]
    assert difference["logged_digest"] != difference["computed_digest"]
    assert f"computed: what happened since event {difference['agreed']['digest_seq']}" in words
    assert causes["edited log"].startswith("yes")


async def test_another_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def as_of_0_0_9(bodies: list[Body]) -> list[Body]:
        first = bodies[0]
        assert isinstance(first, RunStarted)
        versions = {**first.versions, "engine": "0.0.9"}
        return [msgspec.structs.replace(first, versions=versions), *bodies[1:]]

    log = await rewritten(tmp_path / "log.db", as_of_0_0_9)
    assert CliRunner().invoke(replay_command, [str(log), "--verify"]).exit_code == 0
    monkeypatch.setitem(policies.POLICIES, "stark", selecting_the_newest)
    difference, causes, _ = explained(log)
    assert difference["what"] == "changed"
    likely, _, evidence = causes["another engine"].partition(": ")
    assert likely == "yes"
    assert f"engine 0.0.9 wrote it, this is {engine_version()}" in evidence
    assert causes["edited log"].startswith("no: the run's hash chain holds")
    assert causes["nondeterministic policy"].startswith("no")


async def test_another_engine_of_the_same_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_today(bodies: list[Body]) -> list[Body]:
        first = bodies[0]
        assert isinstance(first, RunStarted)
        versions = {**first.versions, "engine": engine_version()}
        return [msgspec.structs.replace(first, versions=versions), *bodies[1:]]

    log = await rewritten(tmp_path / "log.db", of_today)
    monkeypatch.setitem(policies.POLICIES, "stark", selecting_the_newest)
    _, causes, _ = explained(log)
    assert causes["another engine"].startswith("yes")
    assert "the code may have changed under the same version" in causes["another engine"]


async def test_a_nondeterministic_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = count()

    def forgetful(state: State, attempt: int) -> Selection | None:
        selection = stark(state, attempt)
        if selection is None:
            return None
        return msgspec.structs.replace(selection, eligible=next(counter) + 1000)

    monkeypatch.setitem(policies.POLICIES, "stark", forgetful)
    difference, causes, words = explained(HISTORY)
    assert [field["field"] for field in difference["fields"]] == ["eligible"]
    assert next(iter(causes)) == "nondeterministic policy"
    evidence = causes["nondeterministic policy"]
    assert evidence.startswith("yes: recomputed twice more, it came out otherwise")
    assert '"eligible":1000' in evidence
    assert '"eligible":1001' in evidence
    assert causes["edited log"].startswith("no")
    assert "likely    nondeterministic policy" in words


@pytest.mark.parametrize("attempt", [2, 8])
async def test_a_missing_decision(tmp_path: Path, attempt: int) -> None:
    """Before another decision, or before a fact: both ways it is named."""

    def without(bodies: list[Body]) -> list[Body]:
        at = position(bodies, NodeSelected, attempt)
        return bodies[:at] + bodies[at + 1 :]

    difference, causes, _ = explained(await rewritten(tmp_path / "log.db", without))
    assert difference["computed_type"] == "NodeSelected"
    assert difference["logged_type"] == "AgentCalled"
    assert "is what the core decides once NodeSelected is" in causes["missing decision"]
    assert causes["missing decision"].startswith("yes")
    assert "extra decision" not in causes


async def test_a_decision_that_is_due_before_a_fact(tmp_path: Path) -> None:
    def without(bodies: list[Body]) -> list[Body]:
        at = position(bodies, EvaluationFinished, 1) + 1
        assert isinstance(bodies[at], NodeSelected)
        return bodies[:at] + bodies[at + 2 :]  # and the call that follows from it

    difference, causes, words = explained(await rewritten(tmp_path / "log.db", without))
    assert (difference["what"], difference["computed_type"]) == ("missing", "NodeSelected")
    assert causes["missing decision"].startswith("yes: NodeSelected is due before event")
    assert "is recorded where the core decides NodeSelected first" in words


async def test_an_extra_decision_where_another_is_due(tmp_path: Path) -> None:
    def paused(bodies: list[Body]) -> list[Body]:
        return [*bodies[:5], RunPaused(reason="tired"), *bodies[5:]]

    difference, causes, _ = explained(await rewritten(tmp_path / "log.db", paused))
    assert (difference["run_seq"], difference["logged_type"]) == (6, "RunPaused")
    assert difference["fields"] == []
    assert causes["extra decision"] == "yes: what was computed for event 6 stands at event 7"


async def test_an_extra_decision_where_the_core_waits(tmp_path: Path) -> None:
    def asked_twice(bodies: list[Body]) -> list[Body]:
        at = position(bodies, AgentCalled, 4)
        return [*bodies[: at + 1], bodies[at], *bodies[at + 1 :]]

    difference, causes, words = explained(await rewritten(tmp_path / "log.db", asked_twice))
    assert (difference["what"], difference["computed"]) == ("extra", None)
    assert causes["extra decision"] == "yes: the core decides nothing after event 11"
    assert "AgentCalled is recorded where the core decides nothing" in words


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("json_set(body, '$.attempt', 99)", "can't have happened here (KeyError: 99)"),
        ("'{}'", "the event can't be read (EvaluationFinished version 1: Object missing"),
    ],
)
async def test_what_can_not_have_happened_is_no_traceback(
    tmp_path: Path, change: str, said: str
) -> None:
    log = edited(
        tmp_path / "log.db",
        f"UPDATE events SET body = {change} WHERE type = 'EvaluationFinished'"
        " AND json_extract(body, '$.attempt') = 2",
    )
    difference, causes, words = explained(log)
    assert difference["agreed"]["run_seq"] == difference["run_seq"] - 1
    assert causes["edited log"].startswith("yes")
    assert said in words


async def test_damage_behind_the_difference_is_no_cause_of_it(tmp_path: Path) -> None:
    def paused(bodies: list[Body]) -> list[Body]:
        return [*bodies[:5], RunPaused(reason="tired"), *bodies[5:]]

    log = await rewritten(tmp_path / "log.db", paused)
    with sqlite3.connect(log) as connection:
        connection.execute("DROP TRIGGER events_update")
        connection.execute("UPDATE events SET ts_us = 1 WHERE run_seq = 90")
    connection.close()
    _, causes, _ = explained(log)
    assert causes["edited log"].startswith("no: the run's hash chain holds up to here")


async def test_a_log_that_ends_before_a_decision_says_so(tmp_path: Path) -> None:
    log = await rewritten(tmp_path / "log.db", lambda bodies: bodies[:3])
    told = CliRunner().invoke(replay_command, [str(log), "--verify"])
    assert told.exit_code == 0
    assert "the log ends before a NodeSelected that is due" in told.stderr
    told = CliRunner().invoke(replay_command, [str(HISTORY), "--json"])
    assert json.loads(told.stdout)["due"] is None
    assert json.loads(told.stdout)["causes"] == []


@pytest.mark.process
async def test_a_newer_engines_format_is_an_error_for_people(tmp_path: Path) -> None:
    def newer(bodies: list[Body]) -> list[Body]:
        return [msgspec.structs.replace(bodies[0], format="0.9"), *bodies[1:]]

    log = await rewritten(tmp_path / "log.db", newer)
    done = run_engine("replay", log, "--verify")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "in format 0.9, which this engine does not know: update engine" in done.stderr


@pytest.mark.parametrize("run", [1, 2, 3])
async def test_a_forks_shared_events_are_part_of_its_chain(tmp_path: Path, run: int) -> None:
    log = edited(tmp_path / "log.db", f"{NODE_7} run_id = 1 AND run_seq = 25", of=FORKED)
    difference, causes, _ = explained(Path(f"{log}#{run}"))
    assert (difference["run_seq"], difference["logged_type"]) == (25, "NodeSelected")
    assert causes["edited log"].startswith("yes: the run's hash chain does not hold at event 25")


async def test_what_a_fork_does_not_share_is_no_cause_of_its_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent went on, and stands before it in the file."""
    log = edited(tmp_path / "log.db", f"{NODE_7} run_id = 1 AND run_seq = 50", of=FORKED)
    assert explained(Path(f"{log}#1"))[1]["edited log"].startswith("yes")
    agrees = CliRunner().invoke(replay_command, [f"{log}#2", "--verify"])
    assert agrees.exit_code == 0
    monkeypatch.setitem(policies.POLICIES, "best_of_k", selecting_the_newest)
    difference, causes, _ = explained(Path(f"{log}#3"))
    assert difference["run_seq"] > 50
    assert causes["edited log"].startswith("no: the run's hash chain holds")
    assert causes["another engine"].startswith("yes")
    with LogReader(FORKED) as reader:
        forked = next(reader.events(3, after=50)).body
    assert isinstance(forked, RunForked)
    assert f"engine {forked.versions['engine']} wrote it" in causes["another engine"]
