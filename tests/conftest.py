"""What all tests share: cores, temp directories, the sandbox's cache, and which run takes what.

Everything async runs on both backends, unless its module says which one is enough.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

import gpu_sandbox
from gpu_sandbox.devices import lock_files
from tests.process_guard import ProcessGuard
from tests.thorough import examples


def _take_own_cores() -> None:
    """Those that share the machine have cores of their own: sandboxes of two of them would
    time, and compile, on the same one. Before torch is imported, which then has as many threads:
    two on one core wait for each other, and a sum takes thirty times as long."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    workers, cores = int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), sorted(os.sched_getaffinity(0))
    ours = cores[int(worker.removeprefix("gw")) :: workers]
    os.sched_setaffinity(0, ours or cores)


_take_own_cores()


TRIO_IN_SHORT = (
    "agents/test_clients.py",
    "engine/test_loop.py",
    "events/test_log.py",
    "gpu_sandbox/test_lock_files.py",
    "gpu_sandbox/test_places.py",
)
"""Client contract, loop, writer, leases: where backends could differ. Elsewhere the twin on trio of
a test on asyncio is for the long run."""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessGuard(config))
    settings.register_profile("tests", max_examples=examples(100), deadline=None)
    settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    taken = {item.nodeid for item in items}
    for item in items:
        twin = item.nodeid.replace("trio", "asyncio")
        is_twin = twin != item.nodeid and twin in taken
        if is_twin and not item.path.as_posix().endswith(TRIO_IN_SHORT):
            item.add_marker("slow")


JUDGED_AGAIN = "judged again"
"""The property of a test that says why it was."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was otherwise in one verdict of three: a rate to keep an eye on."""
    passed = terminalreporter.stats.get("passed", [])
    told = [
        f"{report.nodeid}: {why}"
        for report in passed
        for name, why in report.user_properties
        if name == JUDGED_AGAIN
    ]
    if told:
        terminalreporter.section(f"{len(told)} judged again, and right then")
        for line in told:
            terminalreporter.write_line(line)


MACHINE_TEMP = Path(tempfile.gettempdir())
"""What other users and engines have, too; the tests' own is another, once they run."""


@pytest.fixture(scope="session", autouse=True)
def session_temp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """For engines that tests start: they need not wait until others' let go of a device."""
    with own_temp(tmp_path_factory.mktemp("temp")) as temp:
        yield temp


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def sandbox_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests and all who run them: what every build shares is made once.

    In ``STARK_TEST_CACHE`` it is kept for later runs, until what makes builds is another.
    """
    kept = os.environ.get("STARK_TEST_CACHE")
    if kept:
        return Path(kept) / _digest_of_builders()
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sandbox-cache"


_BUILDERS = ("builds", "compiler", "extension_build", "toolchain")
"""Rooms of the sandbox that make builds. Keys of builds hold the rest: source, torch, compiler."""


def _digest_of_builders() -> str:
    package, digest = Path(gpu_sandbox.__file__ or "").parent, hashlib.sha256()
    for room in _BUILDERS:
        for path in sorted((package / room).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def own_temp(directory: Path) -> Iterator[Path]:
    """A temp directory, and leases, of our own: other engines share the real ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(directory))
        patch.setenv(lock_files.VARIABLE, str(directory))
        patch.setattr(tempfile, "tempdir", None)
        yield directory
