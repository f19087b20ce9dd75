"""Keeps the marker ``process`` true: in ``make unit`` a test that starts a process fails.

Tests that start one are marked; those that use a fixture which does are marked by it.
"""

from __future__ import annotations

import multiprocessing.process
import platform
import sys
from collections.abc import Generator
from typing import Any

import pytest

__all__ = ["ProcessGuard"]

STARTING_FIXTURES = frozenset(
    {
        "accepted", "bench", "defenceless", "driver", "engine", "fake_library", "family",
        "finished", "make_sandbox", "processes", "sandbox", "sandboxes", "shared_sandbox",
    }
)  # fmt: skip
_STARTS = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
)


class ProcessGuard:
    """A pytest plugin. Audit events name every start but those of ``multiprocessing``.

    It guards where the marker's tests are left out: ``-m "not process …"``.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._running = ""
        platform.platform()  # it starts `uname`, once in a process
        if "not process" in config.getoption("markexpr"):
            sys.addaudithook(self._audit)
            base = multiprocessing.process.BaseProcess
            start = base.start

            def start_audited(process: multiprocessing.process.BaseProcess) -> None:
                self._refuse("multiprocessing")
                start(process)

            setattr(base, "start", start_audited)  # noqa: B010 (type checkers differ about it)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STARTS:
            self._refuse(event)

    def _refuse(self, event: str) -> None:
        if self._running:
            pytest.fail(f"{self._running} starts a process ({event}): mark it `process`")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if not STARTING_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
                item.add_marker("process")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._running = item.nodeid
        try:
            return (yield)
        finally:
            self._running = ""
