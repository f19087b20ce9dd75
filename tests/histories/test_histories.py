"""Recorded logs of this format, replayed: each later engine has to decide as its writer did."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from engine.config import Search
from engine.core.policies import POLICIES
from events.bodies import BODIES, FORMAT, RunStarted
from events.codec import encode_body
from events.envelope import Event
from events.reader import LogReader
from tests.histories.pins import HERE, histories, read_pins
from tests.replayed import replayed

PINS = read_pins()
HISTORIES = histories()
each_history = pytest.mark.parametrize("name", HISTORIES)
each_log = pytest.mark.parametrize("path", sorted(HERE.glob("*.db")), ids=lambda p: p.stem)


def test_each_history_is_pinned_and_described() -> None:
    assert set(HISTORIES) == set(PINS)
    readme = (HERE / "README.md").read_text()
    assert [name for name in HISTORIES if f"| `{name}` |" not in readme] == []


@each_history
def test_a_history_is_intact_and_replays(name: str) -> None:
    path, run = HISTORIES[name]
    events, check, report, prompts = replayed(path, run)
    pin = PINS[name]
    assert check.problems == []
    assert list(check.head.values())[run - 1] == pin.head
    assert report.difference is None
    assert (report.decisions, report.digest) == (pin.decisions, pin.digest)
    assert report.due is None
    assert prompts.rendered > 0
    assert prompts.different == []
    assert events[-1].kind == "decision"


@each_log
def test_a_replay_makes_the_bytes_that_are_stored(path: Path) -> None:
    """A replay compares with decoded bodies: here is that these are the stored ones."""
    with LogReader(path) as reader:
        stored = list(reader.connection.execute("SELECT ver, body FROM events ORDER BY seq"))
        events = reader.since(0, most=len(stored))
    for (ver, body), event in zip(stored, events, strict=True):
        if event.kind == "decision":
            assert ver == BODIES[event.type].VER, "compare with what its upcaster makes of it"
            assert as_written(event, body) == body


def as_written(event: Event, body: str) -> str:
    """The body encoded today, without the fields that were added since, at their defaults."""
    names = msgspec.json.decode(body).keys()
    today: dict[str, Any] = msgspec.json.decode(encode_body(event.body))
    for field in msgspec.structs.fields(event.body):
        if field.encode_name not in names:
            assert getattr(event.body, field.name) == field.default
    return msgspec.json.encode({n: v for n, v in today.items() if n in names}).decode()


def test_runs_that_were_taken_over_have_a_history() -> None:
    types = set()
    for path in HERE.glob("*.db"):
        with LogReader(path) as reader:
            types |= {type_ for (type_,) in reader.connection.execute("SELECT type FROM events")}
    assert types >= {"RunResumed", "RunForked", "RunPaused", "StopRequested", "HintGiven"}


def test_every_policy_and_method_has_a_history() -> None:
    searches = []
    for path, run in HISTORIES.values():
        with LogReader(path) as reader:
            body = next(reader.events(run)).body
            assert isinstance(body, RunStarted)
            assert body.format == FORMAT
            searches.append(body.config["search"])
    assert {search["policy"] for search in searches} == set(POLICIES)
    methods = get_args(get_type_hints(Search)["method"])
    assert {search["method"] for search in searches} == set(methods)
    assert {search["workers"] > 1 for search in searches} == {False, True}
