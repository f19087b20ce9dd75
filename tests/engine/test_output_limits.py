"""A model that puts out less than is asked for says so once, and is asked for that from then on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.cli.run.resumable import shorter_lines
from engine.cli.views.progress import event_line
from engine.config import Config
from events.bodies import AgentCalled, AgentReplied, CapabilityLearned
from events.reader import LogReader
from projections.run.overview import Overview
from tests.agents.dialects import DIALECTS, Dialect
from tests.agents.model_server import running
from tests.engine.model_runs import MODEL, Ran, Team, config, go_on, search, story

pytestmark = pytest.mark.anyio

ANTHROPIC, OPENAI = DIALECTS
GOOD = ["plan by tool", "code by tool", "judged: correct"]
ASKED = 64_000


@pytest.fixture(params=DIALECTS, ids=lambda api: str(api.name))
def api(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


def generous(**settings: int) -> Config:
    """A run that asks its planner for more than most models give, and its coder for less."""
    base = config(**settings)
    plan = msgspec.structs.replace(base.roles.plan, max_tokens=ASKED)
    code = msgspec.structs.replace(base.roles.code, max_tokens=16_000)
    roles = msgspec.structs.replace(base.roles, plan=plan, code=code)
    return msgspec.structs.replace(base, roles=roles)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One a client, as in ``test_model_trouble``."""
    found = "api" in request.fixturenames and request.getfixturevalue("api") is ANTHROPIC
    return "trio" if found else "asyncio"


async def taught(
    path: Path, api: Dialect, *lessons: str, status: int = 400, **settings: int
) -> tuple[list[int], Ran]:
    """The output limits on the wire, of a run whose first requests were answered so."""
    async with running(Team(api, [api.error(status, text) for text in lessons])) as team:
        client = api.client(team.url)
        ran = await search(path, client, generous(**settings))
        await client.aclose()
    return [api.wire(got).max_tokens for got in team.got], ran


MOST = {
    "anthropic": f"max_tokens: {ASKED} > 8192, which is the maximum allowed number of output"
    " tokens for test-model",
    "openai": f"max_tokens is too large: {ASKED}. This model supports at most 8192 completion"
    " tokens, whereas you provided 64000.",
}


async def test_a_limit_that_is_named_is_kept_from_then_on(tmp_path: Path, api: Dialect) -> None:
    path = tmp_path / "log.db"
    sent, ran = await taught(path, api, MOST[api.name], attempts=2)
    assert story(ran.bodies) == ["learned: max_tokens", "plan failed: capability", *GOOD, *GOOD]
    # The coder asks for 16000, which is too much as well: it learns from the planner's.
    assert sent == [ASKED, 8192, 8192, 8192, 8192]
    (lesson,) = [body for body in ran.bodies if isinstance(body, CapabilityLearned)]
    assert (lesson.param, lesson.limit) == ("max_tokens", 8192)
    called = [body for body in ran.bodies if isinstance(body, AgentCalled)]
    assert called[1].params.max_tokens == ASKED, "what the configuration asks stays as it is"
    replied = [body for body in ran.bodies if isinstance(body, AgentReplied)]
    assert {body.sent["max_tokens"] for body in replied} == {8192}


async def test_calls_under_way_learn_a_limit_once_and_it_is_told_once(
    tmp_path: Path, api: Dialect
) -> None:
    path, said = tmp_path / "log.db", MOST[api.name]
    sent, ran = await taught(path, api, said, said, attempts=2, workers=2)
    assert sent[:2] == [ASKED, ASKED]
    assert set(sent[2:]) == {8192}
    assert story(ran.bodies).count("learned: max_tokens") == 1
    overview, lines = Overview(), []
    with LogReader(path) as reader:
        for event in reader.events(1):
            overview.apply(event)
            lines.append(event_line(overview, event) or "")
    told = [line for line in lines if "8192" in line]
    assert told == [f"{MODEL} puts out 8192 tokens at most: no more are asked for"]


CONTEXTS: dict[str, tuple[Dialect, str]] = {
    "vLLM": (
        OPENAI,
        f"'max_tokens' or 'max_completion_tokens' is too large: {ASKED}. This model's maximum"
        " context length is 32768 tokens and your request has 2000 input tokens"
        f" ({ASKED} > 32768 - 2000). (parameter=max_tokens, value={ASKED})",
    ),
    "vLLM before": (
        OPENAI,
        "This model's maximum context length is 32768 tokens. However, you requested 66000"
        f" tokens (2000 in the messages, {ASKED} in the completion). Please reduce the length of"
        " the messages or completion.",
    ),
    "Anthropic": (
        ANTHROPIC,
        f"input length and `max_tokens` exceed context limit: 2000 + {ASKED} > 32768, decrease"
        " input length or `max_tokens` and try again",
    ),
}


@pytest.mark.parametrize("name", CONTEXTS)
async def test_of_a_context_each_request_asks_for_what_its_prompt_leaves(
    tmp_path: Path, name: str
) -> None:
    api, said = CONTEXTS[name]
    sent, ran = await taught(tmp_path / "log.db", api, said, attempts=2)
    assert story(ran.bodies) == ["learned: context", "plan failed: capability", *GOOD, *GOOD]
    plans = [sent[1], sent[3]]
    assert 1024 < min(plans) <= max(plans) < 32768
    assert plans[0] != plans[1], "the second prompt shows more"
    assert sent[2] == sent[4] == 16_000, "which fits as it is"


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large for this model.",
        # No room for a reply: the prompt is what is too long.
        "'max_tokens' is too large: 64000. This model's maximum context length is 2048 tokens and"
        " your request has 2000 input tokens",
    ],
)
async def test_where_no_limit_can_be_kept_it_is_said_which_setting_lowers_it(
    tmp_path: Path, said: str
) -> None:
    sent, ran = await taught(tmp_path / "log.db", OPENAI, said)
    assert sent == [ASKED]
    assert story(ran.bodies)[-1] == "paused"
    (line,) = shorter_lines(ran.state, "a log.db", 12)
    assert line.startswith(f"roles.plan.max_tokens is {ASKED}. To ask for less: ")
    assert line.endswith("engine fork 'a log.db' --at 12 --set roles.plan.max_tokens=N")


async def test_a_model_that_repeats_its_lesson_is_not_asked_for_ever(
    tmp_path: Path, api: Dialect
) -> None:
    said = MOST[api.name]
    path = tmp_path / "log.db"
    sent, ran = await taught(path, api, said, said)
    assert sent == [ASKED, 8192]
    assert story(ran.bodies)[-2:] == ["plan failed: bad_request", "paused"]
    async with running(Team(api)) as team:
        client = api.client(team.url)
        ran = await go_on(path, client)
        await client.aclose()
    assert story(ran.bodies)[-3:] == GOOD
    assert {api.wire(got).max_tokens for got in team.got} == {8192}, "the log keeps the lesson"


async def test_a_budget_to_think_with_still_fits(tmp_path: Path) -> None:
    base = generous(attempts=1)
    plan = msgspec.structs.replace(base.roles.plan, thinking=32_000)
    thoughtful = msgspec.structs.replace(base, roles=msgspec.structs.replace(base.roles, plan=plan))
    async with running(Team(ANTHROPIC, [ANTHROPIC.error(400, MOST["anthropic"])])) as team:
        client = ANTHROPIC.client(team.url)
        await search(tmp_path / "log.db", client, thoughtful)
        await client.aclose()
    asked = [
        (g.body["max_tokens"], g.body.get("thinking", {}).get("budget_tokens")) for g in team.got
    ]
    assert asked == [(ASKED, 32_000), (8192, 4096), (8192, None)]
