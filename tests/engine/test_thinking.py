"""Roles that think before they answer: what is sent, what is learned, and what the log says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.config import Config, RoleConfig
from events.bodies import AgentCalled, AgentReplied
from events.codec import encode_body
from tests.agents.dialects import DIALECTS, Dialect
from tests.agents.model_server import Got, running
from tests.engine.model_runs import MARKED, Team, candidate, config, search, story

pytestmark = pytest.mark.anyio

ANTHROPIC, OPENAI = DIALECTS
NO_BUDGET = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and'
    ' "output_config.effort" to control thinking behavior.'
)
BUDGET = {"type": "enabled", "budget_tokens": 4096}
GOOD = ["plan by fence", "code by tool", "judged: correct"]


def thoughtful() -> Config:
    """A planner that thinks, and a coder that does not."""
    base = config(attempts=2)
    plan = msgspec.structs.replace(base.roles.plan, thinking=4096)
    return msgspec.structs.replace(base, roles=msgspec.structs.replace(base.roles, plan=plan))


class Thinking(Team):
    """Who may choose answers plans in prose, after thinking; a forced tool is used."""

    def _answer(self, role: str) -> Any:
        if role != "plan":
            return super()._answer(role)
        thought = {"thinking": f"```python\n{candidate('broken', 9)}```"}
        return self.api.reply(thought, f"Go faster.\n```python\n{MARKED}```")


def asked_of(got: Got) -> tuple[Any, ...]:
    body = got.body
    return body.get("thinking"), body["tool_choice"]["type"], body.get("temperature")


async def test_only_the_role_that_thinks_is_told_to(tmp_path: Path) -> None:
    async with running(Thinking(ANTHROPIC)) as team:
        client = ANTHROPIC.client(team.url)
        ran = await search(tmp_path / "log.db", client, thoughtful())
        await client.aclose()
    assert story(ran.bodies) == GOOD * 2
    planned, coded = (BUDGET, "auto", None), (None, "tool", 0.1)
    assert [asked_of(got) for got in team.got] == [planned, coded] * 2
    replied = [body for body in ran.bodies if isinstance(body, AgentReplied)]
    assert [body.sent.get("thinking") for body in replied] == [BUDGET, None] * 2
    called = [body for body in ran.bodies if isinstance(body, AgentCalled)]
    assert [body.params.thinking for body in called] == [4096, msgspec.UNSET] * 2
    assert [b'"thinking"' in encode_body(body) for body in called] == [True, False] * 2


async def test_how_a_model_thinks_is_learned_once(tmp_path: Path) -> None:
    lesson = ANTHROPIC.error(400, NO_BUDGET)
    async with running(Thinking(ANTHROPIC, [lesson])) as team:
        client = ANTHROPIC.client(team.url)
        ran = await search(tmp_path / "log.db", client, thoughtful())
        await client.aclose()
    learned = ["learned: budget_tokens", "plan failed: capability"]
    assert story(ran.bodies) == [*learned, *GOOD * 2]
    adaptive = {"type": "adaptive"}
    plans = [asked_of(got) for got in team.got if "thinking" in got.body]
    assert plans == [(BUDGET, "auto", None), *[(adaptive, "auto", None)] * 2]
    replied = [body for body in ran.bodies if isinstance(body, AgentReplied)]
    assert [body.sent.get("thinking") for body in replied] == [adaptive, None] * 2


async def test_a_model_that_can_not_think_is_asked_as_without(tmp_path: Path) -> None:
    lesson = ANTHROPIC.error(400, "test-model does not support thinking.")
    async with running(Team(ANTHROPIC, [lesson])) as team:
        client = ANTHROPIC.client(team.url)
        ran = await search(tmp_path / "log.db", client, thoughtful())
        await client.aclose()
    assert story(ran.bodies)[:3] == ["learned: thinking", "plan failed: capability", "plan by tool"]
    assert [asked_of(got) for got in team.got[1:]] == [(None, "tool", 0.8), (None, "tool", 0.1)] * 2


async def test_thinking_is_no_parameter_of_chat_completions(tmp_path: Path) -> None:
    bodies = []
    for settings in (thoughtful(), config(attempts=2)):
        api: Dialect = OPENAI
        async with running(Team(api)) as team:
            client = api.client(team.url)
            await search(tmp_path / f"{len(bodies)}.db", client, settings)
            await client.aclose()
        bodies.append([got.body for got in team.got])
    assert bodies[0] == bodies[1]


def test_without_thinking_parameters_are_logged_as_they_always_were() -> None:
    written = msgspec.json.encode(RoleConfig(temperature=0.5).params)
    assert written == b'{"temperature":0.5,"effort":null,"max_tokens":32000}'
