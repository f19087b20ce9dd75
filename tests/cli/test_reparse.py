"""``engine reparse``, and where the reason of a bad reply is shown."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from click.testing import CliRunner

from engine.cli.main import cli
from events.bodies import ReplyParsed, ReplyRejected
from events.reader import LogReader
from replay.reparse import reread

LOG = max((Path(__file__).parents[1] / "histories").rglob("*spans.db"))
"""Some of its attempts were abandoned for their replies."""


def engine(*args: object) -> str:
    result = CliRunner().invoke(cli, list(map(str, args)))
    assert result.exit_code == 0, result
    return result.output


def test_replies_of_a_recorded_log_are_read_as_they_were() -> None:
    assert " replies, 0 read differently now" in engine("reparse", LOG)
    found = [json.loads(line) for line in engine("reparse", LOG, "--json").splitlines()]
    assert all(each["same"] for each in found)
    assert {each["recorded"]["via"] for each in found} == {"tool", None}
    one = engine("reparse", LOG, "--call", found[0]["call"])
    assert "--- tool_input ---" in one


def test_a_reply_that_was_not_read_and_is_now_differs() -> None:
    with LogReader(LOG) as reader:
        events = list(reader.events(1))
        at = next(i for i, event in enumerate(events) if isinstance(event.body, ReplyParsed))
        body = events[at].body
        assert isinstance(body, ReplyParsed)
        rejected = ReplyRejected(
            attempt=body.attempt, role=body.role, call=body.call, reason="no code"
        )
        events[at] = msgspec.structs.replace(events[at], body=rejected)
        first = next(reread(events[: at + 1], reader.text))
    assert first.recorded is not None
    assert (first.recorded.reason, first.now.via, first.same) == ("no code", "tool", False)


def test_views_say_why_a_reply_could_not_be_used() -> None:
    nodes = map(json.loads, engine("tree", LOG, "--json").splitlines())
    node = next(node for node in nodes if node["status"] == "abandoned")
    why = node["rejection"]
    assert why
    assert f"abandoned: the code reply stayed unusable: {why[:20]}" in engine("tree", LOG)
    assert f"stayed unusable: {why}" in engine("show", LOG, node["id"])
    assert f"attempt {node['id']}, abandoned: {why}" in engine("status", LOG)
    assert f"reply can't be used: {why}" in engine("tail", LOG, "-n", 1000)
