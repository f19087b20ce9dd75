"""Replaying asks nothing of the world: the same comes out in any process, at any time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.histories.pins import histories
from tests.replay.rewriting import edited

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).with_name("without_the_world.py")
HISTORIES = [f"{path}#{run}" for path, run in histories().values()]


def outcomes(logs: list[str], *, hash_seed: int) -> list[str]:
    """What each log came to, per log on the command line and on both async backends."""
    done = subprocess.run(
        [sys.executable, SCRIPT, *logs], capture_output=True, text=True, check=False,
        env=environment(PYTHONHASHSEED=str(hash_seed)), timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(logs)
    return lines


def test_replay_asks_nothing_of_the_world(tmp_path: Path) -> None:
    """Explaining a difference neither: an edited log is among them."""
    change = (
        "UPDATE events SET body = json_set(body, '$.node', 7)"
        " WHERE type = 'NodeSelected' AND json_extract(body, '$.attempt') = 6"
    )
    logs = [*HISTORIES, str(edited(tmp_path / "edited.db", change))]
    lines = outcomes(logs, hash_seed=0)
    for line, log in zip(lines, logs, strict=True):
        alone, on_asyncio, on_trio = json.loads(line)
        assert alone == on_asyncio == on_trio
        assert alone["log"] in (log, log.removesuffix("#1"))
        assert (alone["difference"] is None) == (log in HISTORIES)
    assert lines == outcomes(logs, hash_seed=7)
