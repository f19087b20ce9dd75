"""Everything async runs on both backends, unless its module says which one is enough."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_ALONE = ("attacks", "gpu_sandbox")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What only compiles may share the machine; whatever else runs candidates may not."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in _ALONE and not item.get_closest_marker("compiles"):
            item.add_marker("alone")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def sandbox_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: what every build shares is made once a session.

    ``STARK_TEST_CACHE`` keeps builds between runs while one works on the tests.
    """
    kept = os.environ.get("STARK_TEST_CACHE")
    return Path(kept) if kept else tmp_path_factory.mktemp("sandbox-cache")


@contextmanager
def own_temp(directory: Path) -> Iterator[Path]:
    """A temp directory, and so leases, of our own: other engines share the real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(directory))
        patch.setattr(tempfile, "tempdir", None)
        yield directory
