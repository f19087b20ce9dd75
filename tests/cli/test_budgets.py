"""Going on with a run whose budget is used up."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.exits import Exit, Failure
from engine.cli.main import cli

LOG = Path(__file__).parents[1] / "histories" / "2_budget.db"


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
