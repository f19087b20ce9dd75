"""The look at a GPU, on devices that are not there: what counts as left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks import device
from tests.attacks.device import Held, at_rest, holders, left_since, node_of

pytestmark = pytest.mark.anyio

TOTAL_MB = 64 * 1024
REST = Held(2000, TOTAL_MB, frozenset({1, 2, 3}))


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_PAUSE_S", 0.001)
    monkeypatch.setattr(device, "_MOST_S", 0.2)


def looks(*seen: Held) -> Callable[[], Held]:
    """Each in its turn, and the last for ever."""
    left = list(seen)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


async def test_rest_is_what_is_seen_twice() -> None:
    ending = REST._replace(used_mb=9000)
    assert await at_rest(looks(ending, REST._replace(used_mb=4000), REST, REST, ending)) == REST


@pytest.mark.parametrize(
    "now",
    [
        REST,
        REST._replace(pids=frozenset({1, 2, 9})),
        REST._replace(pids=frozenset({1})),
        REST._replace(used_mb=2000 + 1024 + 512),
    ],
    ids=["the-same", "the-next-worker", "fewer", "what-a-verifier-keeps"],
)
async def test_what_the_sandbox_holds_for_itself_is_nothing_left(now: Held) -> None:
    assert await left_since(REST, looks(now)) == []


async def test_what_goes_within_a_while_is_nothing_left() -> None:
    wedged = Held(60_000, TOTAL_MB, frozenset({1, 2, 3, 4}))
    assert await left_since(REST, looks(wedged, wedged, REST)) == []


async def test_what_stays_is_named() -> None:
    (process,) = await left_since(REST, looks(REST._replace(pids=frozenset({1, 2, 3, 44}))))
    assert "[44]" in process
    (memory,) = await left_since(REST, looks(REST._replace(used_mb=6000)))
    assert "4000 MB" in memory


async def test_holders_are_those_that_have_the_node_open(tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.touch()
    program = f"import time; f = open({str(node)!r}); print(flush=True); time.sleep(60)"
    command = [sys.executable, "-S", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:  # noqa: ASYNC220
        assert holder.stdout is not None
        holder.stdout.readline()
        assert holders(str(node)) == {holder.pid}
        holder.kill()
    with node.open():
        assert holders(str(node)) == {os.getpid()}


def test_only_the_gpu_that_was_asked_about_is_looked_at(tmp_path: Path) -> None:
    for minor, uuid in ((0, "GPU-a1"), (1, "GPU-b2")):
        told = tmp_path / f"0000:0{minor}:00.0" / "information"
        told.parent.mkdir()
        told.write_text(f"Model: \t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")
    assert node_of("GPU-b2", tmp_path) == "/dev/nvidia1"
    assert node_of("GPU-c3", tmp_path) == r"/dev/nvidia\d+"
