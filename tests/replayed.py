"""A log, verified and replayed with its own templates."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from agents.templates import Templates
from engine.loop.methods import team_of
from engine.loop.texts import Texts
from events.envelope import Event
from events.reader import LogReader
from events.verify import LogCheck, verify_log
from replay.prompts import PromptCheck
from replay.verify import Replay, replay

__all__ = ["Replayed", "replayed"]


class Replayed(NamedTuple):
    events: list[Event]
    check: LogCheck
    report: Replay
    prompts: PromptCheck


def replayed(path: Path, run_id: int = 1) -> Replayed:
    with LogReader(path) as reader:
        events = list(reader.events(run_id))
        templates = events[0].body.templates  # type: ignore[attr-defined]
        prompts = PromptCheck(
            Texts(reader.text),
            Templates(texts={name: reader.text(sha) for name, sha in templates.items()}),
        )
        report = replay(events, team_of, watch=prompts.watch)
        return Replayed(events, verify_log(reader), report, prompts)
