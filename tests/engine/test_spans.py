"""A coder that is asked for replacements only: what it is sent, what is made of its reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.clients.port import Reply, Request
from engine.config import Config
from events.bodies import AgentCalled, AttemptAbandoned, ReplyParsed, ReplyRejected
from events.reader import LogReader
from projections.run.overview import overview_of
from tests.agents.dialects import DIALECTS, Dialect
from tests.agents.model_server import Script, running
from tests.engine.model_runs import Team, search
from tests.engine.model_runs import config as model_config
from tests.engine.outside import ScriptedClient, ScriptedEvaluator
from tests.engine.test_fork import fork
from tests.engine.test_loop import check, dies, go_on, of_type, start
from tests.engine.world import config_of

pytestmark = pytest.mark.anyio


def _marked(request: Request) -> str:
    """With a tag before and behind the first line that returns something."""
    rows = request.node_source.split("\n")
    at = next(n for n, row in enumerate(rows) if row.startswith("        return"))
    tags = [f"        # <<<IMPROVE {word}>>>" for word in ("BEGIN", "END")]
    return "\n".join([*rows[:at], tags[0], rows[at], tags[1], *rows[at + 1 :]])


def spans(config: Config) -> Config:
    code = msgspec.structs.replace(config.roles.code, reply="spans")
    return msgspec.structs.replace(config, roles=msgspec.structs.replace(config.roles, code=code))


class Replacing(ScriptedClient):
    """A coder that does as it is asked, after so many replies that do not fit."""

    def __init__(self, *, misfits: int = 0) -> None:
        super().__init__()
        self.misfits = misfits

    async def send(self, request: Request) -> Reply:
        reply = await super().send(request)
        if request.role == "plan":
            answer: dict[str, Any] = {"advice": "go faster", "annotated_source": _marked(request)}
            return msgspec.structs.replace(reply, tool_input=answer)
        if request.tool.name != "spans":
            return reply
        self.misfits -= 1
        number = len(self.sent)
        code = f"        return 2 * x + 0 * {number}  # ok {number}"
        replacements = [code] * (2 if self.misfits >= 0 else 1)
        answer = {"explanation": "done", "replacements": replacements, "definitions": []}
        return msgspec.structs.replace(reply, tool_input=answer)


@pytest.mark.parametrize("workers", [1, 3])
async def test_replacements_are_put_into_the_selected_source(tmp_path: Path, workers: int) -> None:
    path, client = tmp_path / "log.db", Replacing()
    config = spans(config_of(attempts=6, workers=workers))
    state = await start(path, config, client, ScriptedEvaluator())
    assert state.attempts_ended == 6
    bodies = check(path)
    forms = {(body.role, body.reply) for body in of_type(bodies, AgentCalled)}
    assert forms == {("plan", "whole"), ("code", "spans")}
    with LogReader(path) as reader:
        overview = overview_of(reader.events(1))
        for parsed in of_type(bodies, ReplyParsed):
            if parsed.role != "code":
                continue
            node = overview.tree[parsed.attempt]
            assert (node.spliced, node.source_sha256) == (True, parsed.source_sha256)
            parent = reader.text(overview.tree[node.parent or 0].source_sha256)
            source = reader.text(node.source_sha256)
            assert _without_block(source) == _without_block(parent.replace("Model(", "ModelNew("))
            assert len(source) - parsed.kept_chars == source.index("\n", source.index("# ok")) - (
                source.index("        return 2")
            )
    summary = overview.summary(run="", log="")
    kept = sum(parsed.kept_chars for parsed in of_type(bodies, ReplyParsed))
    assert summary.saved_tokens_estimate == kept // 4 > 0


def _without_block(source: str) -> list[str]:
    """Without the line that plans mark."""
    return [row for row in source.split("\n") if " x" not in row or "return" not in row]


async def test_a_reply_that_does_not_fit_is_asked_again_with_the_reason(tmp_path: Path) -> None:
    path, client = tmp_path / "log.db", Replacing(misfits=4)
    await start(path, spans(config_of(attempts=3, reasks=2)), client, ScriptedEvaluator())
    bodies = check(path)
    assert len(of_type(bodies, ReplyRejected)) == 4
    assert [body.attempt for body in of_type(bodies, AttemptAbandoned)] == [1]
    again = [request for request in client.sent if request.ask]
    assert {request.tool.name for request in again} == {"spans"}
    assert all("and the reply 2 replacements" in request.parts[-1].text for request in again)


async def test_killed_before_a_reply_is_read_it_is_read_as_it_was_asked(tmp_path: Path) -> None:
    config = spans(config_of(attempts=2))
    await start(tmp_path / "whole.db", config, Replacing(), ScriptedEvaluator())
    bodies = check(tmp_path / "whole.db")
    kill_at = [n for n, body in enumerate(bodies) if isinstance(body, ReplyParsed)][1]
    path, client = tmp_path / "log.db", Replacing()
    await dies(start(path, config, client, ScriptedEvaluator(), kill_at=kill_at))
    await go_on(path, client, ScriptedEvaluator())
    assert [body.spliced for body in of_type(check(path), ReplyParsed)] == [False, True] * 2
    # A fork that asks for whole files reads it so, too: that is how it was asked.
    other = config_of(attempts=2)
    await fork(path, 1, kill_at, {"fake:m": ScriptedClient()}, config=other)
    with LogReader(path) as reader:
        forked = [event.body for event in reader.events(2)]
    read = [body for body in of_type(forked, ReplyParsed) if body.role == "code"]
    assert [body.spliced for body in read] == [True, False]


class Coding(Team):
    """Answers the coder's tool with replacements."""

    def _answer(self, role: str) -> Script:
        if role != "code":
            return super()._answer(role)
        answer = {
            "explanation": "Done.", "replacements": ["        return 2 * x  # ok 1"],
            "definitions": [{"code": "NUMBER = 1", "before": ""}],
        }  # fmt: skip
        return self.api.reply({"name": "spans", "json": json.dumps(answer)}, stop="tool_use")


@pytest.mark.parametrize("api", DIALECTS, ids=lambda api: str(api.name))
async def test_real_clients_bring_the_answer(tmp_path: Path, api: Dialect) -> None:
    async with running(Coding(api)) as team:
        client = api.client(team.url)
        ran = await search(tmp_path / "log.db", client, spans(model_config(attempts=1)))
        await client.aclose()
    assert ran.state.attempts_ended == 1
    read = [body for body in of_type(ran.bodies, ReplyParsed) if body.role == "code"]
    assert [(body.via, body.spliced) for body in read] == [("tool", True)]
