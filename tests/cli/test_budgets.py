"""Going on with a run whose budget is used up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread
from click.testing import CliRunner

from engine.cli.exits import Exit, Failure
from engine.cli.main import cli
from engine.cli.run.resumable import check_goes_on
from engine.loop.start import recover
from events.reader import LogReader
from tests.engine.outside import ScriptedClient, ScriptedEvaluator
from tests.engine.test_loop import start
from tests.engine.world import config_of

pytestmark = pytest.mark.anyio
LOG = Path(__file__).parents[1] / "histories" / "budget.db"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "the device budget is used up; add to it with --budget-device-s +N"),
        (["--budget-tokens", "+5"], "--budget-tokens: the run has no such budget to add to"),
        (["--budget-wall-s", "-5"], "--budget-wall-s -5: can only add"),
    ],
)
def test_what_is_missing_or_can_not_be_added_is_said(
    tmp_path: Path, args: list[str], said: str
) -> None:
    log = tmp_path / "log.db"
    log.write_bytes(LOG.read_bytes())
    failed = CliRunner().invoke(cli, ["resume", str(log), *args]).exception
    assert isinstance(failed, Failure)
    assert (failed.code, said in str(failed)) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    ("search", "budget", "said"),
    [
        ({"root_throttle": 0}, {}, "no node may have another child, so nothing is left to do"),
        ({}, {"target_speedup": 1.0}, "the target speedup is reached; nothing is left to do"),
        ({}, {"wall_s": 0.0}, "the wall budget is used up; add to it with --budget-wall-s +N"),
    ],
)
async def test_a_run_that_would_end_again_at_once_is_left_as_it_is(
    tmp_path: Path, search: dict[str, Any], budget: dict[str, Any], said: str
) -> None:
    log = tmp_path / "log.db"
    config = config_of(**{"attempts": 3, **search})
    budgeted = msgspec.structs.replace(config.budget, **budget)
    config = msgspec.structs.replace(config, budget=budgeted)
    state = await start(log, config, ScriptedClient(), ScriptedEvaluator())
    assert state.stopped
    assert state.exhausted != "attempts"
    before = log.read_bytes()
    for args in ([], ["--attempts", "+0"]):
        done = await to_thread.run_sync(CliRunner().invoke, cli, ["resume", str(log), *args])
        assert isinstance(done.exception, Failure)
        assert (done.exception.code, said in str(done.exception)) == (Exit.USAGE, True)
        assert log.read_bytes() == before


async def test_patience_that_ran_out_starts_anew(tmp_path: Path) -> None:
    """So there is something to do, and resuming such a run is not refused."""
    log = tmp_path / "log.db"
    log.write_bytes((LOG.parent / "patience.db").read_bytes())
    with LogReader(log) as reader:
        recovered = recover(reader, 1)
    check_goes_on(recovered, log, {}, worked_ms=0)
