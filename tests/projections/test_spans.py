"""A log as spans: whole, nested, named by the conventions, the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.bodies import AgentCalled, AgentReplied, EvaluationRequested, NodeSelected
from events.reader import LogReader
from projections.export.spans import Span, Spans
from tests.agents.dialects import DIALECTS, Dialect
from tests.agents.model_server import running
from tests.engine.model_runs import Team, config, search
from tests.histories.pins import histories

RUNS = histories()
REQUEST = ("temperature", "max_tokens")


def spans_of(name: str, upto: int | None = None) -> list[Span]:
    path, run = RUNS[name]
    with LogReader(path) as reader:
        fold = Spans("feed")
        made = [span for event in reader.events(run, upto=upto) for span in fold.apply(event)]
        return [*made, *fold.rest()]


@pytest.mark.parametrize("name", ["resumed", "forked#2", "paused", "mailed", "steered"])
def test_every_step_of_a_run_is_a_span_within_its_attempt(name: str) -> None:
    spans = spans_of(name)
    path, run = RUNS[name]
    with LogReader(path) as reader:
        bodies = [event.body for event in reader.events(run)]
    expected = sum(isinstance(b, NodeSelected | AgentCalled | EvaluationRequested) for b in bodies)
    assert len(spans) == expected + 1
    by_id = {span.id: span for span in spans}
    assert len(by_id) == len(spans)
    (root,) = [span for span in spans if span.parent is None]
    assert (root.name, root.error) == ("invoke_workflow stark", "")
    for span in spans:
        assert span.start_us <= span.end_us
        if span.parent is not None:
            above = by_id[span.parent]
            assert above.start_us <= span.start_us <= span.end_us <= above.end_us
    replied = [s for s in spans if s.client and not s.error]
    assert len(replied) == sum(isinstance(body, AgentReplied) for body in bodies)
    for span in replied:
        assert span.name == f"chat {span.attributes['gen_ai.request.model']}"
        assert span.attributes["gen_ai.operation.name"] == "chat"
        assert span.attributes["gen_ai.provider.name"] in ("playbook", "mailbox")
        assert "gen_ai.response.model" in span.attributes
    assert spans == spans_of(name), "made again, they are the same"


def test_what_a_log_ends_in_the_middle_of_is_unanswered() -> None:
    path, run = RUNS["stark"]
    with LogReader(path) as reader:
        called = next(e for e in reader.events(run) if isinstance(e.body, AgentCalled))
    rest = {span.name: span.error for span in spans_of("stark", called.run_seq)}
    chat = next(name for name in rest if name.startswith("chat "))
    assert rest == {chat: "unanswered", "attempt 1": "unanswered", "invoke_workflow stark": ""}


@pytest.mark.anyio
@pytest.mark.parametrize("api", DIALECTS, ids=lambda api: str(api.name))
async def test_a_spans_parameters_are_those_that_were_sent(tmp_path: Path, api: Dialect) -> None:
    lessons = {
        "anthropic": ["temperature is not supported"],
        "openai": ["temperature is not supported", "'max_tokens' is not supported with this model"],
    }[api.name]
    async with running(Team(api, [None, *[api.error(400, text) for text in lessons]])) as team:
        client = api.client(team.url)
        ran = await search(tmp_path / "log.db", client, config())
        await client.aclose()
    fold = Spans("feed")
    with LogReader(tmp_path / "log.db") as reader:
        spans = [span for event in reader.events(1) for span in fold.apply(event)]
    told = [
        (span.error, *(span.attributes.get(f"gen_ai.request.{name}") for name in REQUEST))
        for span in spans
        if span.client
    ]
    refused = [("capability", None, None)] * len(lessons)
    assert told == [("", 0.8, 32_000), *refused, ("", None, 32_000)]
    last = [body for body in ran.bodies if isinstance(body, AgentReplied)][-1]
    assert ("max_tokens" in last.sent) == (api.name == "anthropic")
