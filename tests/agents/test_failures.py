"""One try of a call, whoever is asked."""

from __future__ import annotations

import anyio
import pytest

from agents.clients.failures import one_try
from agents.clients.port import CallFailed
from events.bodies import Usage

pytestmark = pytest.mark.anyio


async def test_what_was_reported_before_a_deadline_is_kept() -> None:
    reported: list[Usage] = []

    async def work() -> None:
        reported.append(Usage(input_tokens=7))
        await anyio.sleep_forever()

    with pytest.raises(CallFailed) as info:
        await one_try(work(), lambda _: None, used=lambda: reported[-1], timeout_s=0.01)
    assert (info.value.error, info.value.usage) == ("timed_out", Usage(input_tokens=7))
