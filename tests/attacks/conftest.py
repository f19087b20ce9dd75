"""Sandboxes with short timings, one for each set of limits, and a world for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gpu_sandbox.sandbox import LocalSandbox
from tests.attacks.judging import Sandboxes, Twins
from tests.attacks.table import ALL_LIMITS
from tests.attacks.world import World
from tests.conftest import own_temp

HAS_CUDA = Path("/dev/nvidiactl").exists()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def private_temp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with own_temp(tmp_path_factory.mktemp("attacked-temp")) as temp:
        yield temp


@pytest.fixture(scope="module")
async def sandboxes(private_temp: Path, sandbox_cache: Path) -> AsyncIterator[Sandboxes]:
    """Opened for a module, so that an attack meets what earlier ones may have left."""
    devices = ("cpu", "cuda:0") if HAS_CUDA else ("cpu",)
    async with AsyncExitStack() as stack:
        opened = {
            (device, limits): await stack.enter_async_context(
                LocalSandbox((device,), limits=limits, cache=sandbox_cache)
            )
            for device in devices
            for limits in ALL_LIMITS
        }
        yield opened


@pytest.fixture(scope="module")
def twins(sandboxes: Sandboxes) -> Twins:
    return Twins(sandboxes)


@pytest.fixture
def world(tmp_path: Path, private_temp: Path, sandbox_cache: Path) -> Iterator[World]:
    with World(tmp_path / "world", sandbox_cache) as made:
        yield made
