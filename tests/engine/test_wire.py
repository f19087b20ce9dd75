"""What really goes to the model, against the paper's definitions: temperatures, windows, anchors.

What the judge judges are the requests as the server got them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from agents.templates import load
from engine.cli.settings.layers import resolve
from engine.config import Config, Prompts
from events.bodies import AgentCalled
from events.reader import LogReader
from tests.agents.dialects import DIALECTS, Dialect, Wire
from tests.agents.model_server import running
from tests.engine.model_runs import MODEL, Team, config, search
from tests.engine.wire_judge import Judge

pytestmark = pytest.mark.anyio

KINDS = ("ok", "broken", "ok", "wrong", "ok", "ok", "broken")


@pytest.fixture(params=DIALECTS, ids=lambda api: str(api.name))
def api(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


@pytest.fixture
def anyio_backend(api: Dialect) -> str:
    """One a client, the other way round than in test_model_trouble."""
    return {"anthropic": "asyncio", "openai": "trio"}[api.name]


class Judged(NamedTuple):
    judge: Judge
    wires: list[Wire]


async def judged(
    path: Path, api: Dialect, settings: Config, *, kinds: Sequence[str] = KINDS, distinct: int = 0
) -> Judged:
    """A run in which every request was what the paper defines."""
    literal = settings.search.window_sampling == "literal"
    async with running(Team(api, kinds=tuple(kinds), distinct=distinct)) as team:
        client = api.client(team.url)
        ran = await search(path, client, settings)
        await client.aclose()
    wires = [api.wire(got) for got in team.got]
    with LogReader(path) as reader:
        judge, left = Judge(reader, literal=literal), iter(wires)
        for body in ran.bodies:
            if isinstance(body, AgentCalled):
                judge.check(body, next(left))
            else:
                judge.happened(body)
    assert next(left, None) is None
    assert ran.state.attempts_ended == settings.budget.attempts
    return Judged(judge, wires)


def ours(**search: int) -> Config:
    return msgspec.structs.replace(
        config(seed=2, epsilon=0.5, **search), prompts=Prompts(system="main", language="cpp")
    )


def papers(method: str, *assignments: str, attempts: int = 9) -> Config:
    flags = {"search.method": method, "model": MODEL, "budget.attempts": attempts}
    return resolve(
        preset="paper", file=None, environment={}, flags=flags, assignments=list(assignments)
    )


async def test_each_request_is_what_the_paper_defines(tmp_path: Path, api: Dialect) -> None:
    judge, wires = await judged(tmp_path / "log.db", api, ours(attempts=36))
    assert min(judge.seen[role] for role in ("plan", "code", "debug")) >= 5
    assert judge.capped >= 3
    system = {wire.system for wire in wires}
    assert len(system) == 1
    assert system.pop().startswith(load().text("system_main.md").split("{")[0])


async def test_the_papers_preset_samples_over_the_whole_window(
    tmp_path: Path, api: Dialect
) -> None:
    settings = papers("stark", "search.seed=2", "search.epsilon=0.5", attempts=36)
    judge, _ = await judged(tmp_path / "log.db", api, settings)
    assert judge.capped >= 3
    assert judge.crowded >= 1, "the selected node or the root has made room"


async def test_leaders_are_distinct(tmp_path: Path, api: Dialect) -> None:
    judge, wires = await judged(tmp_path / "log.db", api, ours(attempts=30), distinct=7)
    assert judge.duplicates >= 3
    assert any("**A duplicate**" in wire.user for wire in wires)


async def test_sampling_sends_one_prompt_and_shows_no_attempt(tmp_path: Path, api: Dialect) -> None:
    judge, wires = await judged(tmp_path / "log.db", api, papers("sampling"))
    assert judge.seen == {"single": 9}
    assert {attempt.parent for attempt in judge.attempts.values()} == {0}
    assert len(set(wires)) == 1, "the same, to the letter"
    assert "attempt 1" not in wires[-1].user


async def test_reflexion_shows_its_last_attempt_and_no_other(tmp_path: Path, api: Dialect) -> None:
    judge, wires = await judged(tmp_path / "log.db", api, papers("reflexion"))
    assert judge.seen == {"single": 9}
    assert [attempt.parent for attempt in judge.attempts.values()] == list(range(9))
    for number, wire in enumerate(wires):
        sources = [j for j, attempt in judge.attempts.items() if attempt.source in wire.user]
        assert sources == ([number] if number else [])


async def test_the_search_agent_shows_the_node_it_selected_and_no_other(
    tmp_path: Path, api: Dialect
) -> None:
    settings = papers("search_agent", "search.seed=2", "search.epsilon=0.5", attempts=16)
    judge, wires = await judged(tmp_path / "log.db", api, settings)
    assert judge.seen == {"single": 16}
    parents = [attempt.parent for attempt in judge.attempts.values()]
    assert len(set(parents)) >= 5
    outcomes = {judge.attempts[i].outcome for i in parents if i}
    assert len(outcomes) >= 2, "failing ones are selected as well, by the same agent"
    for i, wire in zip(parents, wires, strict=True):
        sources = [j for j, attempt in judge.attempts.items() if attempt.source in wire.user]
        assert sources == ([i] if i else [])
