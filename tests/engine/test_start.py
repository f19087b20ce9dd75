"""``search.start``: a kernel of the user's is the first attempt, and no agent is asked for it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.analyse.compare import comparison_lines
from engine.cli.settings.layers import resolve
from engine.cli.views.run_status import status_lines
from engine.config import Budget, Config
from engine.core.policies import POLICIES
from engine.core.state import State
from events.bodies import (
    AgentCalled,
    EvaluationFinished,
    EvaluationRequested,
    GivenKernel,
    NodeSelected,
    Usage,
)
from events.outcomes import Correct
from events.reader import LogReader
from projections.export.training import pairs_of
from projections.run.overview import overview_of
from projections.run.report import report_of
from projections.search.steps import Steps
from replay.compare import compare
from replay.simulate.record import record_of
from replay.simulate.search import simulate
from replay.verify import replay
from tests.engine.outside import ScriptedClient, ScriptedEvaluator
from tests.engine.test_loop import check, dies, go_on, of_type, start
from tests.engine.world import World, as_events, config_of, started, team_of
from tests.thorough import examples

KERNEL = '''""" ok 3 """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x * 2.0
'''
WRONG = KERNEL.replace("ok", "wrong")
FROZEN = GivenKernel(name="k.py", sha256="9" * 64, key="key7")
METHODS = ("stark", "ma_only", "sampling", "reflexion", "search_agent")


def of_method(*assignments: str) -> Config:
    return resolve(
        preset=None, file=None, environment={}, flags={},
        assignments=["model=fake:m", "prompts.language=cpp", "search.start=mine/k.py",
                     "budget.attempts=6", *assignments],
    )  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("method", METHODS)
async def test_every_method_begins_with_it(tmp_path: Path, method: str) -> None:
    path, client, evaluator = tmp_path / "log.db", ScriptedClient(), ScriptedEvaluator()
    config = of_method(f"search.method={method}")
    state = await start(path, config, client, evaluator, given=KERNEL)
    assert (state.stopped, state.attempts_ended) == ("finished", 6), "it is one of B"
    assert evaluator.judged[0] == KERNEL
    bodies = check(path)
    first, second = of_type(bodies, NodeSelected)[:2]
    assert (first.attempt, first.node, first.rule, first.visit) == (1, 0, "given", 0)
    assert 1 not in {body.attempt for body in of_type(bodies, AgentCalled)}
    if method == "reflexion":
        assert second.node == 1, "the chain begins with it"
        shown = {part.name: part.text for part in client.sent[0].parts}
        assert KERNEL.strip() in shown["selected"]
    if second.node == 0:
        assert second.visit == 0, "nobody was asked from the root before"
    with LogReader(path) as reader:
        node = state.tree[1]
        assert reader.text(node.source_sha256 or "") == KERNEL
        assert (node.made, node.advice_sha256) == ("user", None)
        # A model's replies are what teaches a model: the user's kernel is not among them.
        assert 1 not in {pair.node for pair in pairs_of("run", reader.events(1))}
        report = report_of(reader.events(1), run="", log="")
        assert (report.funnel["user"].attempts, report.funnel["user"].correct) == (1, 1)
        # What is counted are attempts of agents, wherever it is said.
        steps = Steps()
        for event in reader.events(1):
            steps.apply(event)
        summary, made = report.summary, report.funnel["all"]
        assert (summary.attempts, summary.attempts_by_agents) == (6, 5)
        verdicts = [body.outcome for body in of_type(bodies, EvaluationFinished)[1:]]
        correct = sum(isinstance(outcome, Correct) for outcome in verdicts)
        assert (made.attempts, made.correct, made.compiled) == (5, correct, summary.compiled)
        (attempts,) = [line for line in status_lines(steps.overview, summary) if "compiled" in line]
        told = f"{summary.compiled} compiled, {correct} correct"
        assert f"6 of 6, 5 by agents: {told}" in attempts
        compared = " ".join(" ".join(comparison_lines(compare([(steps, summary)] * 2))).split())
        assert compared.count(f"| 6, 5 by agents | {summary.compiled} | {correct} |") == 2
        assert (report.summary.given and report.summary.given.name) == "k.py"


@pytest.mark.anyio
@pytest.mark.parametrize("repairs", [True, False])
async def test_one_that_fails_is_a_failing_node(tmp_path: Path, repairs: bool) -> None:
    client = ScriptedClient()
    config = of_method("search.method=ma_only", f"search.repairs={str(repairs).lower()}")
    state = await start(tmp_path / "log.db", config, client, ScriptedEvaluator(), given=WRONG)
    check(tmp_path / "log.db")
    if repairs:
        assert (state.tree[2].parent, state.tree[2].repair) == (1, True)
        names = [part.name for part in client.sent[0].parts]
        assert (client.sent[0].role, "inherited" in names, "advice" in names) == (
            "debug", False, False,
        )  # fmt: skip
    else:
        assert not any(node.repair for node in state.tree.nodes.values())


class Echoing(ScriptedClient):
    """Hands in what it was given, with a comment."""

    def _candidate(self, request: object) -> str:
        return f"# {len(self.sent)}\n{KERNEL}"


@pytest.mark.anyio
async def test_whoever_repeats_it_gets_its_verdict(tmp_path: Path) -> None:
    evaluator = ScriptedEvaluator()
    config = of_method("search.method=sampling", "search.workers=3")
    state = await start(tmp_path / "log.db", config, Echoing(), evaluator, given=KERNEL)
    check(tmp_path / "log.db")
    assert evaluator.judged == [KERNEL]
    assert [state.tree[n].same_as for n in range(1, 7)] == [None, 1, 1, 1, 1, 1]


@pytest.mark.anyio
async def test_best_says_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await start(
        path, of_method("budget.attempts=1"), ScriptedClient(), ScriptedEvaluator(), given=KERNEL
    )
    with LogReader(path) as reader:
        best = overview_of(reader.events(1)).best
    assert best is not None
    assert (best.node, best.given) == (1, True)
    # One more attempt asks agents.
    client = ScriptedClient()
    await go_on(path, client, ScriptedEvaluator(), attempts=1)
    assert client.sent
    check(path)


def test_budgets_of_calls_do_not_keep_it_from_being_judged() -> None:
    budget = Budget(attempts=6, tokens=1500)
    config = msgspec.structs.replace(config_of(), budget=budget)
    expected = {role: Usage(input_tokens=2000) for role in ("plan", "code", "debug")}
    for kernel, judged in ((FROZEN, 1), (None, 0)):
        world = World(config, 1)
        world.state, world.bodies, world.pending = State(team_of), [], []
        world.feed(msgspec.structs.replace(started(config, given=kernel), estimates=expected))
        world.run()
        assert not any(isinstance(body, AgentCalled) for body in world.bodies)
        assert (world.state.exhausted, world.state.attempts_ended) == ("tokens", judged)


@pytest.mark.anyio
@pytest.mark.parametrize("workers", [1, 3])
async def test_killed_anywhere_it_goes_on_without_the_file(tmp_path: Path, workers: int) -> None:
    config = of_method("budget.attempts=3", f"search.workers={workers}")
    for kill_at in (2, 3, 4, 5, 6, 7, 9, 13):
        path, client, evaluator = tmp_path / f"{kill_at}.db", ScriptedClient(), ScriptedEvaluator()
        await dies(start(path, config, client, evaluator, kill_at=kill_at, given=KERNEL))
        state = await go_on(path, client, evaluator)
        assert state.attempts_ended == 3
        assert [body.rule for body in of_type(check(path), NodeSelected)].count("given") == 1


@settings(max_examples=examples(60))
@given(
    st.integers(0, 2**30), st.sampled_from(list(product(POLICIES, ("plan_code_debug", "single")))),
    st.sampled_from([1, 4]), st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_whatever_happens_it_comes_first_and_once(
    chance: int, searched: tuple[str, str], workers: int, trouble: float
) -> None:
    policy, team = searched
    config = config_of(policy=policy, team=team, workers=workers, attempts=8, population=3)
    world = World(config, chance, trouble=trouble, given=FROZEN).run()
    selected = [body for body in world.bodies if isinstance(body, NodeSelected)]
    assert [body.attempt for body in selected if body.rule == "given"] == [1]
    assert selected[0].rule == "given"
    types = [type(body) for body in world.bodies]
    judged = types.index(EvaluationFinished)
    # The others start from a tree that has it.
    assert AgentCalled not in types[:judged]
    assert types[:judged].count(NodeSelected) == 1
    requested = next(body for body in world.bodies if isinstance(body, EvaluationRequested))
    assert (requested.attempt, requested.source_sha256) == (1, FROZEN.sha256)
    assert world.state.tree[1].source_key == FROZEN.key
    assert replay(as_events(world.bodies), team_of).difference is None


@settings(max_examples=examples(20))
@given(st.integers(0, 2**30), st.integers(0, 3))
def test_a_simulation_begins_with_it(chance: int, order: int) -> None:
    config = config_of(attempts=6, epsilon=0.6)
    world = World(config, chance, given=FROZEN).run()
    record = record_of(world.bodies, "log", ["uid"])
    done = simulate([record], config, team_of, order=order)
    assert (done.taken[0], done.selections[0].rule) == ("1", "given")
    assert "1" not in done.taken[1:]
    if order == 0:
        assert done.taken == [str(attempt) for attempt in range(1, 7)]


def test_a_fork_before_it_begins_with_it_and_one_behind_it_has_it() -> None:
    config = config_of(attempts=6)
    parent = World(config, 5, given=FROZEN).run()
    evolution = config_of(attempts=6, policy="evolution", population=2)
    for at in range(3, 12):
        other = parent.fork(at, evolution).run()
        rules = [body.rule for body in other.bodies if isinstance(body, NodeSelected)]
        assert rules.count("given") == 1
        assert other.state.tree[1].source_sha256 == FROZEN.sha256
        assert replay(as_events(other.bodies), team_of).difference is None
