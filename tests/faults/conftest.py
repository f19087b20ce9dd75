"""``make test`` takes the short form of each fault, ``make faults`` the long one."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.context import ForkServerContext

import pytest

from tests.forks import FORKS
from tests.thorough import THOROUGH


@pytest.fixture(scope="session")
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a figure that the long form is run for, whatever pytest captures."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        if THOROUGH and capture is not None:
            with capture.global_and_fixture_disabled():
                print(f"\n{line}", flush=True)

    return say


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    return FORKS
