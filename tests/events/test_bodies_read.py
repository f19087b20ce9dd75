"""Reading for a fold: only some types of events, of one run among several."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from events import names
from events.bodies import BaselineRequested, StopRequested
from events.names import named
from events.reader import LogReader
from events.writer import LogWriter


@pytest.mark.anyio
async def test_bodies_are_those_of_the_events_of_these_types(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with LogWriter(path) as log:
        runs = [log.create_run("one"), log.create_run("two")]
        for number in range(12):
            run = runs[number % 3 == 0]
            body = BaselineRequested() if number % 2 else StopRequested(source=str(number))
            await log.durable(log.append(run, body))
        with LogReader(path) as reader:
            (at,) = reader.events(runs[0], after=2, upto=3)
        runs.append(log.fork(runs[0], at, "three"))
        await log.durable(log.append(runs[2], StopRequested(source="the fork's own")))
    with LogReader(path) as reader:
        for run in runs:
            for upto in (None, 2, 3, 4):
                events = list(reader.events(run, upto=upto))
                for types in ((StopRequested,), (BaselineRequested, StopRequested), ()):
                    wanted = [event.body for event in events if isinstance(event.body, types)]
                    assert list(reader.bodies(run, types, upto=upto)) == wanted


@pytest.mark.parametrize("call", [names._statx, None], ids=["statx", "stat"])
def test_a_name_is_the_file_that_it_stands_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: object
) -> None:
    monkeypatch.setattr(names, "_statx", call)
    path = tmp_path / "a"
    assert named(path) is None
    path.write_bytes(b"12345")
    found = named(path)
    assert found is not None
    plain = os.stat(path)
    assert found == (plain.st_dev, plain.st_ino, 5)
    path.rename(tmp_path / "b")
    path.write_bytes(b"")
    assert named(tmp_path / "b") == found
    assert named(path) != found
