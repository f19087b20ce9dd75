"""Going on with a run whose budget is used up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import run_engine

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
    done = run_engine("resume", log, *args)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
