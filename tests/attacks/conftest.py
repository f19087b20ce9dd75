"""Sandboxes with short timings, one for each set of limits, and a world for each test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.supervise.run_directory import remove_stale, run_directory
from tests.attacks.judging import Rests, Sandboxes, Twins
from tests.attacks.table import ALL_LIMITS
from tests.attacks.world import World
from tests.conftest import MACHINE_TEMP, own_temp

HAS_CUDA = Path("/dev/nvidiactl").exists()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def private_temp() -> AsyncIterator[Path]:
    """Beside pytest's own, which it removes by recursion: what an attack that was killed leaves
    may be thousands of directories deep. The next run sweeps that up, as an engine does."""
    attacked = MACHINE_TEMP / f"attacked-{os.getuid()}"
    remove_stale(attacked)
    async with run_directory(attacked) as ours:
        with own_temp(ours.path) as temp:
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


@pytest.fixture(scope="module")
def rests(sandboxes: Sandboxes) -> Rests:
    return Rests(sandboxes)


@pytest.fixture
def world(tmp_path: Path, private_temp: Path, sandbox_cache: Path) -> Iterator[World]:
    with World(tmp_path / "world", sandbox_cache) as made:
        yield made
