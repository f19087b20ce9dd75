"""Whatever a provider or a model answers, the run goes on or pauses, and its log says why.

Each trouble meets a run of one attempt, once; a good model answers all other requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from agents.clients.port import CallFailed
from engine.config import Budget
from events.bodies import AgentCalled, AgentFailed, AgentReplied, ReplyParsed, Usage
from events.reader import LogReader
from tests.agents import completions_api
from tests.agents.dialects import DIALECTS, KEY, Dialect, tool
from tests.agents.model_server import Cut, Script, Stall, running
from tests.engine.model_runs import (
    ANNOTATED,
    Ran,
    Team,
    candidate,
    config,
    go_on,
    search,
    story,
)
from tests.engine.outside import TASK

pytestmark = pytest.mark.anyio


@pytest.fixture(params=DIALECTS, ids=lambda api: str(api.name))
def api(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


@pytest.fixture
def anyio_backend(api: Dialect) -> str:
    """One a client: clients and loop are each tested on both, and differ in nothing here."""
    return {"anthropic": "trio", "openai": "asyncio"}[api.name]


PLAN = tool("plan", advice="Go faster.", annotated_source=ANNOTATED)
CODE = tool("code", explanation="Done.", source=candidate("ok", 3))
BEGUN = Usage(input_tokens=11, output_tokens=1, cache_read_tokens=300, cache_write_tokens=20)
"""What the server says of a message's beginning."""
GOOD = ["plan by tool", "code by tool", "judged: correct"]
"""What a run without trouble has to tell."""

Trouble = Callable[[Dialect], Script]


async def met(
    tmp_path: Path, api: Dialect, *troubles: Script | None, **settings: Any
) -> tuple[Team, Ran]:
    """A run that met these troubles in its first calls."""
    async with running(Team(api, troubles)) as team:
        client = api.client(team.url)
        try:
            return team, await search(tmp_path / "log.db", client, config(**settings))
        finally:
            await client.aclose()


RETRIED: dict[str, tuple[Trouble, str]] = {
    "429": (lambda api: api.error(429, "slow down", retry_after="0.02"), "rate_limited"),
    "500": (lambda api: api.error(500, "oops"), "server_error"),
    "529": (lambda api: api.error(529, "overloaded"), "overloaded"),
    "cut": (lambda api: [*api.begun("Let me"), Cut()], "connection"),
    "ended early": (lambda api: [*api.begun("Let me"), b"0\r\n\r\n"], "connection"),
    "error in mid-stream": (lambda api: [*api.broken("busy"), b"0\r\n\r\n"], "overloaded"),
}


@pytest.mark.parametrize("name", RETRIED)
async def test_what_passes_is_tried_again(tmp_path: Path, api: Dialect, name: str) -> None:
    trouble, error = RETRIED[name]
    team, ran = await met(tmp_path, api, trouble(api), None, trouble(api))
    failed = f"failed: {error}"
    assert story(ran.bodies) == [f"plan {failed}", GOOD[0], f"code {failed}", *GOOD[1:]]
    assert (ran.state.stopped, ran.state.attempts_ended) == ("finished", 1)
    called = [body for body in ran.bodies if isinstance(body, AgentCalled)]
    assert [(body.role, body.try_) for body in called] == [
        ("plan", 1), ("plan", 2), ("code", 1), ("code", 2)
    ]  # fmt: skip
    assert all(body.wait_ms >= (20 if name == "429" else 1) for body in called if body.try_ > 1)
    assert team.got[0].body == team.got[1].body, "the same request once more"
    # The Messages API says what went in before the first word comes out; chat completions, at
    # the end.
    begun = name in ("cut", "ended early", "error in mid-stream") and api.name == "anthropic"
    failures = [body for body in ran.bodies if isinstance(body, AgentFailed)]
    assert [body.usage for body in failures] == [BEGUN if begun else None] * 2
    total = ran.state.spend.total
    whole = 331 if api.name == "anthropic" else 311
    assert total.input_tokens == whole * (4 if begun else 2)
    assert total.output_tokens == 2 * 42 + 2 * begun
    assert total.calls == 2


async def test_a_server_that_counts_as_it_goes_is_believed(tmp_path: Path) -> None:
    api = DIALECTS[1]
    said = completions_api.completion("Let me", piece=500)[1]
    said["usage"] = {"prompt_tokens": 30, "completion_tokens": 7}
    _, ran = await met(tmp_path, api, [*completions_api.chunks(said, end=False), Cut()])
    (failed,) = [body for body in ran.bodies if isinstance(body, AgentFailed)]
    assert failed.usage == Usage(input_tokens=30, output_tokens=7)
    assert ran.state.spend.total.tokens == 2 * (311 + 42) + 37


async def test_a_budget_ends_by_what_cut_streams_took(tmp_path: Path, api: Dialect) -> None:
    """Nothing ever arrives whole, and yet it is paid for: 332 tokens a try."""
    if api.name == "openai":
        pytest.skip("it says so at the end alone")
    cuts = [[*api.begun("Let me"), Cut()] for _ in range(9)]
    settings = config(call_tries=9)
    settings = msgspec.structs.replace(settings, budget=Budget(attempts=1, tokens=1_000))
    async with running(Team(api, cuts)) as team:
        client = api.client(team.url)
        ran = await search(tmp_path / "log.db", client, settings)
        await client.aclose()
    assert (ran.state.stopped, ran.state.stop_reason) == ("exhausted", "tokens")
    assert [ran.state.spend.total.tokens, len(team.got)] == [4 * 332, 4]


PAUSED: dict[str, tuple[Trouble, str, str]] = {
    "400": (lambda api: api.error(400, "bad thing"), "bad_request", "400: bad thing"),
    "401": (lambda api: api.error(401, f"{KEY} is no key"), "unauthorized", "_API_KEY"),
    "403": (lambda api: api.error(403, "not for you"), "unauthorized", "not for you"),
    "413": (lambda api: api.error(413, "too much"), "too_large", "too much"),
    "429 for an hour": (
        lambda api: api.error(429, "later", retry_after="3600"), "rate_limited", "later"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAUSED)
async def test_what_stays_pauses_the_run_which_can_go_on(
    tmp_path: Path, api: Dialect, name: str
) -> None:
    trouble, error, said = PAUSED[name]
    _, ran = await met(tmp_path, api, trouble(api))
    assert story(ran.bodies) == [f"plan failed: {error}", "paused"]
    assert ran.state.paused is not None
    assert said in ran.state.paused
    assert ran.state.unauthorized == (error == "unauthorized")
    assert KEY.encode() not in (tmp_path / "log.db").read_bytes()
    async with running(Team(api)) as team:
        client = api.client(team.url)
        ran = await go_on(tmp_path / "log.db", client)
        await client.aclose()
    assert story(ran.bodies)[2:] == GOOD
    assert (ran.state.attempts_started, ran.state.attempts_ended) == (1, 1), "none was lost"


async def test_an_outage_pauses_after_the_tries(tmp_path: Path, api: Dialect) -> None:
    _, ran = await met(tmp_path, api, *[api.error(503, "down")] * 3, call_tries=3)
    assert story(ran.bodies) == [*["plan failed: server_error"] * 3, "paused"]


async def test_a_stall_is_tried_again_after_the_deadline(tmp_path: Path, api: Dialect) -> None:
    client = api.client("http://127.0.0.1:9")  # what a client imports is none of the deadline's
    with pytest.raises(CallFailed):
        await client.send(_any_request())
    await client.aclose()
    _, ran = await met(
        tmp_path, api, [*api.begun("Let me"), Stall()], timeout_s=0.5, call_tries=100
    )
    told = story(ran.bodies)
    assert told[0] == "plan failed: timed_out"
    # (On a machine that is busy enough, the good answer may be late as well.)
    assert [line for line in told if line != told[0]] == GOOD


def _any_request() -> Any:
    from tests.agents.test_clients import REQUEST

    return REQUEST


REJECTED: dict[str, tuple[Trouble, str]] = {
    "malformed tool input": (
        lambda api: api.reply({"name": "plan", "json": '{"advice": "x", '}, stop="tool_use"),
        "no JSON object with `annotated_source`",
    ),
    "nested without end": (
        lambda api: api.reply({"name": "plan", "json": "[" * 50_000}, piece=50_000),
        "no JSON object with `annotated_source`",
    ),
    "wrong fields": (
        lambda api: api.reply(tool("plan", plan="x"), stop="tool_use"), "lacks `annotated_source`"
    ),
    "empty content": (lambda api: api.reply(), "no answer through the tool"),
    "truncated": (
        lambda api: api.reply(
            {"name": "plan", "json": '{"annotated_source": "import'}, stop="max_tokens"
        ),
        "cut off",
    ),
    "refusal": (lambda api: api.reply("I won't.", stop="refusal"), "declined"),
    "ten megabytes of blocks": (
        lambda api: api.reply("```\nx = 1\n```\n" * 700_000, piece=1_000_000), "too long"
    ),
    "the source without anchors": (
        lambda api: api.reply(tool("plan", advice="x", annotated_source=TASK)), "no marked block"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
async def test_what_is_no_use_is_asked_again_with_the_reason(
    tmp_path: Path, api: Dialect, name: str
) -> None:
    trouble, reason = REJECTED[name]
    team, ran = await met(tmp_path, api, trouble(api))
    told = story(ran.bodies)
    assert told[0].startswith("plan rejected: ")
    assert reason in told[0]
    assert told[1:] == GOOD
    again = api.wire(team.got[1]).user
    assert told[0].removeprefix("plan rejected: ") in again
    assert again.startswith(api.wire(team.got[0]).user), "asked again: all as before, and why"
    replied = [body for body in ran.bodies if isinstance(body, AgentReplied)]
    assert [body.usage.output_tokens for body in replied if body.usage] == [42, 42, 42]


async def test_a_prompt_that_comes_back_is_no_plan(tmp_path: Path, api: Dialect) -> None:
    class Echo(Team):
        def script_for(self, got: Any) -> Script:
            wire = api.wire(got)
            first = len(self.got) == 1
            return api.reply(wire.user, piece=100_000) if first else super().script_for(got)

    async with running(Echo(api)) as team:
        client = api.client(team.url)
        ran = await search(tmp_path / "log.db", client, config())
        await client.aclose()
    told = story(ran.bodies)
    assert told[0].startswith("plan rejected: ")
    assert told[1:] == GOOD


async def test_a_model_that_stays_useless_costs_one_attempt(tmp_path: Path, api: Dialect) -> None:
    _, ran = await met(tmp_path, api, *[api.reply()] * 3, attempts=2)
    told = story(ran.bodies)
    assert [line.split(":")[0] for line in told[:3]] == ["plan rejected"] * 3
    assert told[3:] == ["abandoned", *GOOD]


_WINDOWS = ANNOTATED.replace("\n", "\r\n")
_TWO_BLOCKS = (
    f"First:\n```python\n{candidate('broken', 1)}```\nBetter:\n\n"
    f"```python\n{candidate('ok', 2)}```\nRun it:\n```sh\npython x.py\n```\n"
)
_CPP = ANNOTATED.replace("# <<<", "// <<<")
TAKEN: dict[str, tuple[tuple[Trouble | None, ...], list[str]]] = {
    "Windows line ends": (
        (
            lambda api: api.reply(tool("plan", advice="a\r\nb", annotated_source=_WINDOWS)),
            lambda api: api.reply(f"So:\n```\n{candidate('ok', 1)}```".replace("\n", "\r\n")),
        ),
        ["plan by tool", "code by fence", "judged: correct"],
    ),
    "anchors of another language": (
        (lambda api: api.reply(tool("plan", advice="Go.", annotated_source=_CPP)),), GOOD
    ),
    "several blocks": (
        (None, lambda api: api.reply(_TWO_BLOCKS)),
        ["plan by tool", "code by fence", "judged: correct"],
    ),
    "JSON as text": (
        (lambda api: api.reply(PLAN["json"]), lambda api: api.reply(CODE["json"])),
        ["plan by json", "code by json", "judged: correct"],
    ),
    "raw line ends in JSON": (
        (None, lambda api: api.reply({"name": "code", "json": CODE["json"].replace("\\n", "\n")})),
        GOOD,
    ),
    "ten megabytes": (
        (None, lambda api: api.reply("x " * 5_000_000, CODE, piece=1_000_000)), GOOD
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
async def test_what_can_be_used_is_used(tmp_path: Path, api: Dialect, name: str) -> None:
    troubles, told = TAKEN[name]
    _, ran = await met(tmp_path, api, *[trouble and trouble(api) for trouble in troubles])
    assert story(ran.bodies) == told
    parsed = [body for body in ran.bodies if isinstance(body, ReplyParsed)]
    with LogReader(tmp_path / "log.db") as reader:
        # Whichever way it came: Unix line ends, and the tags as Python's comments.
        assert reader.text(parsed[0].annotated_sha256 or "") == ANNOTATED
        source = reader.text(parsed[1].source_sha256 or "")
    assert source in [candidate("ok", number) for number in (1, 2, 3)]


async def test_bytes_that_are_no_utf_8_do_not_break_a_reply(tmp_path: Path, api: Dialect) -> None:
    script = [
        step.replace(b"Done", b"D\xffe\xfe") if isinstance(step, bytes) else step
        for step in api.reply(CODE)
    ]
    _, ran = await met(tmp_path, api, None, script)
    assert story(ran.bodies) == GOOD


async def test_a_refused_parameter_is_left_out_in_all_later_calls(
    tmp_path: Path, api: Dialect
) -> None:
    lesson = api.error(400, "temperature is not supported")
    team, ran = await met(tmp_path, api, lesson, attempts=2)
    assert story(ran.bodies) == ["learned: temperature", "plan failed: capability", *GOOD, *GOOD]
    assert [api.wire(got).temperature for got in team.got] == [0.8, None, None, None, None]
    replied = [body for body in ran.bodies if isinstance(body, AgentReplied)]
    assert not any("temperature" in body.sent for body in replied)
    failures = [body for body in ran.bodies if isinstance(body, AgentFailed)]
    assert failures[0].retry_after_ms is None


async def test_calls_that_were_under_way_learn_the_same_lesson(
    tmp_path: Path, api: Dialect
) -> None:
    lesson = api.error(400, "temperature is not supported")
    team, ran = await met(tmp_path, api, lesson, lesson, attempts=2, workers=2)
    told = story(ran.bodies)
    assert told.count("learned: temperature") == 1
    assert told.count("plan failed: capability") == 2
    assert len(told) == 3 + 2 * len(GOOD)
    assert [api.wire(got).temperature for got in team.got[:2]] == [0.8, 0.8]


async def test_a_stop_during_a_stalled_call_hangs_up_and_can_go_on(
    tmp_path: Path, api: Dialect
) -> None:
    path = tmp_path / "log.db"
    async with running(Team(api, [[*api.begun("Let me"), Stall()]])) as team:
        client = api.client(team.url)
        ran = await search(path, client, config(), stop_when=team.stalled)
        assert ran.state.stopped == "interrupted"
        with anyio.fail_after(5):
            await team.hung_up.wait()
        ran = await go_on(path, client)
        await client.aclose()
    assert story(ran.bodies) == GOOD
    sent = json.dumps(team.got[0].body)
    assert sent == json.dumps(team.got[1].body), "asked again, as nobody knows whether it was paid"
