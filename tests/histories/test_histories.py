"""Recorded logs, replayed for ever: a later engine has to decide as the one that wrote them.

A file's name begins with the log format that it is of. Files are never changed; a new
format, policy or method adds one. Recorded with `engine run` on an NVIDIA H200 (the
playbook client; docs/results says how).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from projections.overview import overview_of
from tests.replayed import replayed

HISTORIES = sorted(Path(__file__).parent.glob("*.db"))
HEADS = {
    "1_stark_layer_norm_h200": ("046bef0fc41a02791a77fe9b00447b6dd43dfaf8f77899534896400a8d6523d9"),
    "1_stark_softmax_h200": ("f129b0ffecbc6e0435a3692795499de8f1175043a7268e88b14e0743033c0039"),
}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_history_is_intact_and_replays(path: Path) -> None:
    events, check, report, prompts = replayed(path)
    assert check.problems == []
    assert list(check.head.values()) == [HEADS[path.stem]]
    assert report.difference is None
    assert report.decisions > 50
    assert prompts.rendered > 0
    assert prompts.different == []
    overview = overview_of(events)
    assert overview.status == "finished"
    assert overview.best is not None


def test_there_are_histories() -> None:
    assert {path.stem for path in HISTORIES} == set(HEADS)
