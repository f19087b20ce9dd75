"""Each method as it runs: who is asked, from where, with which window and temperature."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.templates import load
from engine.cli.settings.layers import resolve
from engine.core.state import State
from engine.loop.methods import models_of, roles_of, team_of
from engine.loop.run import RunLoop
from engine.loop.start import run_started
from engine.loop.texts import Texts
from events.bodies import AgentCalled, NodeSelected
from events.reader import LogReader
from events.writer import LogWriter
from tests.engine.outside import TASK, ScriptedClient, ScriptedEvaluator
from tests.replayed import replayed

pytestmark = pytest.mark.anyio

PAPER_METHODS = {
    # policy, team, windows; the temperatures that were asked for (paper, appendix B)
    "stark": ("stark", "plan_code_debug", True, {"plan": 0.8, "code": 0.1, "debug": 0.1}),
    "ma_only": ("best_of_k", "plan_code_debug", False, {"plan": 0.8, "code": 0.1, "debug": 0.1}),
    "sampling": ("best_of_k", "single", False, {"single": 0.7}),
    "reflexion": ("iterative", "single", False, {"single": 0.7}),
    "search_agent": ("stark", "single", False, {"single": 0.7}),
}


class Ran:
    """A search that ended: what was sent, selected and called."""

    def __init__(self, path: Path, client: ScriptedClient) -> None:
        with LogReader(path) as reader:
            bodies = [event.body for event in reader.events(1)]
        self.sent = client.sent
        self.selected = [body for body in bodies if isinstance(body, NodeSelected)]
        self.called = [body for body in bodies if isinstance(body, AgentCalled)]
        self.path = path

    def parts(self, role: str) -> list[dict[str, str]]:
        """The prompts that the role got, each by the names of its parts."""
        return [
            {part.name: part.text for part in request.parts}
            for request in self.sent
            if request.role == role
        ]


async def search(path: Path, *assignments: str, attempts: int = 9) -> Ran:
    config = resolve(
        preset=None, file=None, environment={}, flags={},
        assignments=["model=fake:m", "prompts.language=cpp", f"budget.attempts={attempts}",
                     "search.epsilon=0.5", *assignments],
    )  # fmt: skip
    client, texts = ScriptedClient(), Texts(_no_text)
    async with LogWriter(path) as log:
        loop = RunLoop(
            log=log, run_id=log.create_run("feed"), uid="feed", state=State(team_of), texts=texts,
            templates=load(), clients={"fake:m": client}, evaluator=ScriptedEvaluator(),
        )  # fmt: skip
        first, blobs = run_started(
            config=config, task_name="double.py", task_source=TASK, device={"name": "scripted"},
            canned=False, texts=texts,
        )  # fmt: skip
        await loop.run(first, blobs)
    return Ran(path, client)


def _no_text(sha256: str) -> str:
    raise AssertionError(f"{sha256} should still be in memory")


@pytest.mark.parametrize("method", PAPER_METHODS)
async def test_a_method_is_a_policy_and_a_team(method: str, tmp_path: Path) -> None:
    ran = await search(tmp_path / "log.db", f"search.method={method}")
    policy, team, windows, temperatures = PAPER_METHODS[method]
    config = replayed(ran.path).report.state.config
    assert (config.search.policy, config.search.team) == (policy, team)
    assert config.search.windows == windows
    assert {r.role: r.params.temperature for r in ran.sent} == temperatures
    if not windows:
        assert all(set(body.pool) <= {_node(ran, body), 0} for body in ran.called)


async def test_sampling_sends_the_same_prompt_without_observations_each_time(
    tmp_path: Path,
) -> None:
    ran = await search(tmp_path / "log.db", "search.method=sampling")
    assert {body.node for body in ran.selected} == {0}
    prompts = ran.parts("single")
    assert len(prompts) == 9
    assert all(prompt == prompts[0] for prompt in prompts)
    assert set(prompts[0]) == {
        "system", "example", "device", "task", "accuracy", "weights", "selected", "instruction"
    }  # fmt: skip


async def test_reflexion_updates_its_last_attempt_with_what_was_observed(tmp_path: Path) -> None:
    ran = await search(tmp_path / "log.db", "search.method=reflexion")
    assert [body.node for body in ran.selected] == list(range(9))
    assert not any(body.repair for body in ran.selected)
    for number, prompt in enumerate(ran.parts("single")[1:], 1):
        assert f"Here is your latest attempt (attempt {number})" in prompt["selected"]
        assert "**Compiler observation**" in prompt["selected"]
        assert not any(name.startswith("attempt") for name in prompt)


async def test_any_team_under_any_policy(tmp_path: Path) -> None:
    ran = await search(
        tmp_path / "log.db", "search.method=reflexion", "search.policy=mcts",
        "search.team=plan_code_debug",
    )  # fmt: skip
    assert {body.rule for body in ran.selected} == {"uct"}
    assert {body.role for body in ran.called} >= {"plan", "code"}


async def test_without_anchors_the_coder_gets_the_advice_and_the_bare_source(
    tmp_path: Path,
) -> None:
    ran = await search(tmp_path / "log.db", "search.anchors=false")
    assert all("Put `<<<IMPROVE BEGIN>>>`" in prompt["instruction"] for prompt in ran.parts("plan"))
    others = [*ran.parts("code"), *ran.parts("debug")]
    assert others
    for prompt in others:
        assert prompt["advice"].endswith("go faster")
        assert not any("<<<IMPROVE" in text for text in prompt.values())
    assert replayed(ran.path).prompts.different == []


async def test_without_a_debug_role_a_failing_node_is_planned_for(tmp_path: Path) -> None:
    ran = await search(tmp_path / "log.db", "search.repairs=false", "search.epsilon=1")
    tree = replayed(ran.path).report.state.tree
    assert any(tree[body.node].failed for body in ran.selected)
    assert not any(body.repair for body in ran.selected)
    assert {body.role for body in ran.called} == {"plan", "code"}


async def test_one_temperature_for_all(tmp_path: Path) -> None:
    ran = await search(tmp_path / "log.db", "temperature=0.4", "roles.plan.temperature=0.9")
    assert {request.params.temperature for request in ran.sent} == {0.4}


def _node(ran: Ran, called: AgentCalled) -> int:
    return next(body.node for body in ran.selected if body.attempt == called.attempt)


def test_only_models_of_roles_that_are_asked_are_opened() -> None:
    config = resolve(
        preset=None, file=None, environment={}, flags={"search.method": "sampling"},
        assignments=["roles.single.model=a:b", "roles.debug.model=c:d"],
    )  # fmt: skip
    assert (roles_of(config), models_of(config)) == (("single",), ["a:b"])
