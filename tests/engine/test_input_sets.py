"""A run on a task with hidden input sets: no prompt has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.templates import load
from engine.core.state import State
from engine.loop.methods import team_of
from engine.loop.run import RunLoop
from engine.loop.start import run_started
from engine.loop.texts import Texts
from events.writer import LogWriter
from tests.engine.outside import TASK, ScriptedClient, ScriptedEvaluator
from tests.engine.test_observations import config
from tests.replayed import replayed

SETS = """

def get_input_sets():
    return {"short": lambda: [torch.rand(100)]}


def get_hidden_input_sets():
    return {"secret": lambda: [torch.rand(77777)]}
"""


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_prompt_has_a_hidden_input_set(tmp_path: Path) -> None:
    client = ScriptedClient()
    async with LogWriter(tmp_path / "log.db") as log:
        texts = Texts(lambda sha256: "")
        loop = RunLoop(
            log=log, run_id=log.create_run("feed"), uid="feed", state=State(team_of), texts=texts,
            templates=load(), clients={"fake:m": client}, evaluator=ScriptedEvaluator(),
        )  # fmt: skip
        first, blobs = run_started(
            config=config(), task_name="double.py", task_source=TASK + SETS, device={},
            canned=False, texts=texts,
        )  # fmt: skip
        await loop.run(first, blobs)
    told = [part.text for request in client.sent for part in request.parts]
    assert any('"short"' in text for text in told)
    assert any("several input sets: `short`" in text for text in told)
    assert not any("77777" in text or "get_hidden_input_sets" in text for text in told)
    assert not any("77777" in request.node_source for request in client.sent)
    replay = replayed(tmp_path / "log.db")
    assert replay.prompts.rendered > 0
    assert replay.prompts.different == []
