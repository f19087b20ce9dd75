"""Failure signatures and fidelity: against a slow plain model of the definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.main import cli
from engine.cli.views.draw import tree_lines
from engine.cli.views.run_status import signature_lines
from events.bodies import (
    AttemptAbandoned,
    Body,
    EvaluationFinished,
    GivenKernel,
    NodeSelected,
    ReplyParsed,
    RunStarted,
)
from events.outcomes import Correct
from projections.run.overview import Overview
from projections.search.instructions import Edits, fidelity_of, instructions_of
from projections.search.signatures import signatures_of
from tests.engine.world import World, as_events, config_of
from tests.histories.pins import HERE
from tests.thorough import examples

searches = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["stark", "epsilon_greedy", "best_of_k", "random"]),
        "team": st.sampled_from(["plan_code_debug", "plan_code_debug", "single"]),
        "repairs": st.booleans(),
        "workers": st.integers(1, 4),
        "seed": st.integers(0, 99),
        "dead_branch": st.sampled_from([None, 0, 1, 3]),
        "root_throttle": st.sampled_from([None, 2, 5]),
        "reasks": st.integers(0, 1),
    }
)


def world_of(
    search: dict[str, Any], chance: int, steps: int, failing: float, given: GivenKernel | None
) -> World:
    """A run of up to 25 attempts, cut off after some steps."""
    config = config_of(attempts=25, **search)
    return World(config, chance, trouble=0.1, failing=failing, given=given).run(steps)


worlds = st.builds(
    world_of, searches, st.integers(0, 999), st.sampled_from([0, 7, 40, 90, 999]),
    st.sampled_from([0.2, 0.7, 0.95, 1.0]),
    st.sampled_from([None, GivenKernel(name="k.py", sha256="9" * 64, key="mine")]),
)  # fmt: skip


class Plain:
    """The definitions of docs/analysis.md, by looking through the whole log for each question."""

    def __init__(self, bodies: list[Body]) -> None:
        self.bodies = bodies
        self.selected = [b for b in bodies if isinstance(b, NodeSelected)]
        self.judged = [b for b in bodies if isinstance(b, EvaluationFinished)]
        first = bodies[0]
        assert isinstance(first, RunStarted)
        self.search = first.config["search"]

    def ended(self, attempt: int) -> bool:
        over = AttemptAbandoned | EvaluationFinished
        return any(isinstance(b, over) and b.attempt == attempt for b in self.bodies)

    def correct(self, attempt: int) -> bool:
        return any(b.attempt == attempt and isinstance(b.outcome, Correct) for b in self.judged)

    def instruction(self, attempt: int) -> int | None:
        chosen = next(b for b in self.selected if b.attempt == attempt)
        if chosen.repair:
            return self.instruction(chosen.node)
        planned = any(
            isinstance(b, ReplyParsed) and b.role == "plan" and b.attempt == attempt
            for b in self.bodies
        )
        return attempt if planned else None

    def attempts_at(self, instruction: int) -> list[int]:
        numbers = [b.attempt for b in self.selected]
        return [n for n in numbers if self.instruction(n) == instruction and self.ended(n)]

    def instructions(self) -> dict[int, list[int]]:
        all_ = {b.attempt: self.attempts_at(b.attempt) for b in self.selected}
        return {instruction: attempts for instruction, attempts in all_.items() if attempts}

    def gaps(self) -> list[tuple[int, list[int], int | None]]:
        return [
            (instruction, attempts, next(filter(self.correct, attempts), None))
            for instruction, attempts in self.instructions().items()
            if not self.correct(instruction)
        ]

    def dead(self) -> list[int]:
        most = 3 if self.search["dead_branch"] is None else self.search["dead_branch"]
        parent = {b.attempt: b.node for b in self.selected}
        found = []
        for node in (0, *parent):
            children = [b.attempt for b in self.judged if parent[b.attempt] == node]
            if len(children) > most and not any(map(self.correct, children)):
                found.append(node)
        return found

    def root(self) -> tuple[int, int | None]:
        users = {b.attempt for b in self.selected if b.rule == "given"}
        theirs = [b for b in self.judged if b.attempt not in users]
        for held_for, body in enumerate(theirs):
            if isinstance(body.outcome, Correct) and body.outcome.runtime_ms < 10.0:
                return held_for, body.attempt
        return len(theirs), None


def overview_of(world: World) -> Overview:
    overview = Overview()
    for event in as_events(world.bodies):
        overview.apply(event)
    return overview


@given(worlds)
@settings(max_examples=examples(60), deadline=None)
def test_signatures_are_what_the_definitions_say(world: World) -> None:
    found, plain = signatures_of(overview_of(world)), Plain(world.bodies)
    assert [(g.instruction, g.attempts, g.closed_by) for g in found.gaps] == plain.gaps()
    assert [dead.node for dead in found.dead_branches] == plain.dead()
    assert (found.root.held_for, found.root.first_faster) == plain.root()
    enough = found.root.held_for >= (plain.search["root_throttle"] or 5)
    assert found.root.dominates == (enough and found.root.first_faster is None)
    # What is said to be pruned is what the search itself does not select any more.
    pruned = {dead.node for dead in found.dead_branches if dead.pruned}
    assert not pruned & {n for n in world.state.tree.nodes if n in world.state.frontier.eligible}


@given(worlds, st.dictionaries(st.integers(0, 25), st.tuples(*[st.integers(0, 9)] * 3)))
@settings(max_examples=examples(40), deadline=None)
def test_fidelity_is_what_the_definitions_say(
    world: World, lines: dict[int, tuple[int, int, int]]
) -> None:
    tree, plain = world.state.tree, Plain(world.bodies)
    edits = {
        node: Edits(inside=inside, allowed=allowed, outside=outside)
        for node, (inside, allowed, outside) in lines.items()
    }
    found = fidelity_of(tree, instructions_of(tree), edits)
    given = plain.instructions()
    attempts = [n for each in given.values() for n in each]
    realised = [i for i, each in given.items() if any(map(plain.correct, each))]
    assert found.instructions == len(given)
    assert found.first_pass == sum(map(plain.correct, given))
    assert found.first_pass + found.repaired == len(realised)
    assert found.unrealised == len(given) - len(realised)
    assert found.attempts == len(attempts)
    repairs = [b.attempt for b in plain.selected if b.repair and plain.ended(b.attempt)]
    assert (found.repairs, found.mended) == (len(repairs), sum(map(plain.correct, repairs)))
    rates = (found.first_pass_rate, found.repair_rate, found.inside_share, found.grounded_rate)
    assert all(rate is None or 0 <= rate <= 1 for rate in rates)
    assert (found.attempts_per_instruction is None) == (not given)
    counted = [inside for inside, _, outside in lines.values() if inside and not outside]
    assert (found.compared, found.grounded) == (len(lines), len(counted))


def shown(*args: object) -> str:
    done = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert done.exit_code == 0, done.exception
    return done.stdout


def test_people_are_shown_them_and_tables_hold_them(tmp_path: Path) -> None:
    log = HERE / "ma_only.db"
    report = json.loads(shown("report", log, "--json"))
    said = shown("report", log)
    lines = ["gap, closed by a repair: 5 by 6, 7 by 8", "gap, open: 1 (2 tried), 4"]
    for line in lines:
        assert f"- planning-implementation {line}" in said
        assert f"signature  planning-implementation {line}" in shown("status", log)
    assert "| first-pass success       | 20 %  | 1 of 5 instructions; 2 more" in said
    shown("export", log, "--format", "jsonl", "-o", tmp_path)
    rows = list(map(json.loads, (tmp_path / "implementations.jsonl").read_text().splitlines()))
    assert [(row["instruction"], row["number"], row["node"]) for row in rows] == [
        (1, 1, 1), (1, 2, 2), (3, 1, 3), (4, 1, 4), (5, 1, 5), (5, 2, 6), (7, 1, 7), (7, 2, 8),
    ]  # fmt: skip
    fidelity = report["fidelity"]
    for column in ("inside", "allowed", "outside"):
        counted = [row[f"edits_{column}"] for row in rows]
        assert counted[3] is None, "an abandoned attempt has no source to count edits in"
        assert sum(filter(None, counted)) == fidelity[f"lines_{column}"]
    assert sum(row["grounded"] is True for row in rows) == fidelity["grounded"]
    signatures = (tmp_path / "signatures.jsonl").read_text().splitlines()
    found = [json.loads(row) for row in signatures]
    gaps = [row for row in found if row["signature"] == "planning_implementation_gap"]
    assert [row["closed_by"] for row in gaps] == [
        gap["closed_by"] for gap in report["signatures"]["gaps"]
    ]


def test_dead_branches_and_a_dominating_root_are_marked(tmp_path: Path) -> None:
    world = World(config_of(attempts=9, dead_branch=1), 3, failing=1.0).run()
    overview = overview_of(world)
    found = signatures_of(overview)
    assert found.root.dominates
    assert found.dead_branches
    drawn = list(tree_lines(overview))
    assert sum("† dead branch" in line for line in drawn) == len(found.dead_branches)
    said = list(signature_lines(found))
    assert said[0] == "root dominance: none of 9 judged candidates is faster than the reference"
    assert "left alone" in said[1]
    off = config_of(attempts=9, dead_branch=None, policy="random")
    unpruned = signatures_of(overview_of(World(off, 3, failing=1.0).run())).dead_branches
    assert [dead.pruned for dead in unpruned] == [False] * len(unpruned)


def test_texts_that_were_left_out_are_not_counted(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shown("export", HERE / "ma_only.db", "--redact", "-o", copy)
    whole, redacted = (
        json.loads(shown("report", log, "--json")) for log in (HERE / "ma_only.db", copy)
    )
    assert (redacted["fidelity"]["compared"], redacted["fidelity"]["inside_share"]) == (0, None)
    assert redacted["fidelity"]["first_pass"] == whole["fidelity"]["first_pass"]
    assert msgspec.convert(redacted["signatures"], dict[str, Any]) == whole["signatures"]
