"""What is otherwise in one verdict of three is told, and what is so more often fails."""

from __future__ import annotations

import pytest

from tests.attacks.judging import mostly
from tests.conftest import JUDGED_AGAIN

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("verdicts", "wrong", "told", "asked"),
    [
        (["", "b", "c"], "", [], 1),
        (["a", "", ""], "", ["a"], 3),
        (["a", "b", ""], "a\nb", ["a"], 3),
        (["a", "", "c"], "a\nc", ["a"], 3),
    ],
    ids=["right", "once", "twice", "twice-later"],
)
async def test_it_is_judged_again(
    verdicts: list[str], wrong: str, told: list[str], asked: int
) -> None:
    left, recorded = list(verdicts), list[tuple[str, object]]()

    async def judge() -> str:
        return left.pop(0)

    assert await mostly(judge, lambda *both: recorded.append(both)) == wrong
    assert recorded == [(JUDGED_AGAIN, why) for why in told]
    assert len(verdicts) - len(left) == asked
