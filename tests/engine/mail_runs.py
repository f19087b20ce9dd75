"""Real runs whose replies come later: real loop, log and mailbox; the sandbox is scripted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from agents.clients.port import Client
from agents.templates import Templates, load
from engine.config import Config
from engine.core.state import State
from engine.loop.methods import team_of
from engine.loop.run import RunLoop
from engine.loop.start import recover, resumed, run_started
from engine.loop.texts import Texts
from events.bodies import Body
from events.reader import LogReader
from events.writer import LogWriter
from tests.engine.model_runs import ANNOTATED, candidate
from tests.engine.outside import TASK, ScriptedEvaluator
from tests.engine.world import config_of
from tests.replayed import replayed

__all__ = ["MODEL", "answer", "answer_all", "bodies_of", "config", "step", "waiting"]

MODEL = "mailbox:box"


def config(**search: Any) -> Config:
    return msgspec.structs.replace(config_of(**{"attempts": 2, **search}), model=MODEL)


async def step(
    path: Path,
    client: Client,
    config: Config,
    *,
    uid: str = "feed",
    wait_s: float = 0.0,
    evaluator: ScriptedEvaluator | None = None,
    writer: type[LogWriter] = LogWriter,
) -> State:
    """One process's work: begin the run in ``path``, or go on with it."""
    async with writer(path) as log:
        with LogReader(path) as reader:
            known = recover(reader, 1) if reader.runs() else None
            texts = Texts(reader.text)
            loop = RunLoop(
                log=log, run_id=1 if known else log.create_run(uid), uid=uid, texts=texts,
                state=known.state if known else State(team_of),
                templates=Templates(texts=known.templates) if known else load(),
                mail=known.mail if known else None, wait_s=wait_s, clients={MODEL: client},
                evaluator=evaluator or ScriptedEvaluator(),
            )  # fmt: skip
            if known:
                return await loop.run(resumed({}))
            first, blobs = run_started(
                config=config, task_name="double.py", task_source=TASK, device={}, canned=False,
                texts=texts,
            )  # fmt: skip
            return await loop.run(first, blobs)


def waiting(box: Path) -> list[Path]:
    """The requests without a reply."""
    return sorted(
        path
        for path in box.glob("*.json")
        if not path.name.endswith(".reply.json") and not list(box.glob(f"{path.stem}.reply.*"))
    )


def answer(request: Path, *, markdown: bool = False, kind: str = "ok", number: int = 3) -> Path:
    """Answer as a good model would; the file is whole, and has been for long."""
    asked = json.loads(request.read_text())
    prose, code = asked["tool"]["input_schema"]["properties"]
    given = ANNOTATED if asked["role"] == "plan" else candidate(kind, number)
    if markdown:
        text = f"---\nserved_by: Ada\n---\nGo faster.\n\n```python\n{given}```\n"
    else:
        text = json.dumps({"tool_input": {prose: "Go faster.", code: given}, "served_by": "Bob"})
    path = request.with_suffix(".reply.md" if markdown else ".reply.json")
    path.write_text(text)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def answer_all(box: Path, **how: Any) -> int:
    requests = waiting(box)
    for request in requests:
        answer(request, **how)
    return len(requests)


def bodies_of(path: Path) -> list[Body]:
    """The run's bodies; its log is sound, and its replay makes the same decisions."""
    whole = replayed(path)
    assert whole.check.problems == []
    assert (whole.report.difference, whole.prompts.different) == (None, [])
    return [event.body for event in whole.events]
