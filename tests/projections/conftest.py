"""The run in which everything happens, written once."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.projections.rich import write_rich


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rich") / "rich.db"
    anyio.run(write_rich, path)
    return path
