"""The look at a GPU, on devices that are not there: what counts as left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attacks import device
from tests.attacks.device import (
    Held,
    Process,
    at_rest,
    holders,
    left_since,
    node_of,
    strangers,
)

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


@pytest.mark.process
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


_WAITS = "import sys; print(flush=True); sys.stdin.readline();"
_OPENS = "f = open({node!r}); print(flush=True); import time; time.sleep(60)"
_STARTS = "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {program!r}])"


@pytest.fixture
def started() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Runs a program until it says something; at the end it and what it has started is killed."""
    all_of_them: list[subprocess.Popen[bytes]] = []

    def start(program: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-c", program]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        all_of_them.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in all_of_them:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.process
def test_what_others_start_is_theirs_and_what_ours_leave_is_not(
    tmp_path: Path, started: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    node = tmp_path / "node"
    node.touch()
    waits = _WAITS + _STARTS.format(program=_OPENS.format(node=str(node)))
    other, ours = started(waits + "; sys.stdin.readline()"), started(waits)
    known = {process.pid for process in strangers()}
    assert not known & {1, os.getpid(), os.getppid(), other.pid, ours.pid}
    others = frozenset({Process(other.pid, started_at(other.pid))})  # as if it was not our child
    for process in (other, ours):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
    ours.wait()
    both, left = holders(str(node)), holders(str(node), others)
    assert (len(both), len(left)) == (2, 1)
    assert os.getpgid(*left) == ours.pid
    again = frozenset({Process(other.pid, started_at(other.pid) - 1)})  # one with its pid, before
    assert holders(str(node), again) == both


@pytest.mark.process
def test_who_was_left_by_others_is_a_stranger(
    started: Callable[[str], subprocess.Popen[bytes]],
) -> None:
    gone = started(_STARTS.format(program="import time; print(flush=True); time.sleep(60)"))
    gone.wait()
    (left,) = (one for one in strangers() if _group(one.pid) == gone.pid)
    assert left.pid != gone.pid
    assert left.started == started_at(left.pid)


def test_the_first_process_is_no_stranger_where_it_is_not_above_us(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a shell that came into a container: what is left behind becomes its child."""
    first, shell, us, other, left = (Process(pid, 7 * pid) for pid in (1, 20, 21, 30, 31))
    tree = {1: [first], 20: [shell], 21: [us, shell], 30: [other, first], 31: [left, first]}
    monkeypatch.setattr(device, "_pids", lambda: [*tree, 40])
    monkeypatch.setattr(device, "_line", tree.get)
    monkeypatch.setattr(os, "getpid", lambda: 21)
    assert strangers() == {other, left}
    monkeypatch.setattr(device, "_has", lambda pid, node: True)
    assert holders("node", frozenset({other})) == {1, 20, 21, 31, 40}


def started_at(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def _group(pid: int) -> int:
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return 0


def test_only_the_gpu_that_was_asked_about_is_looked_at(tmp_path: Path) -> None:
    for minor, uuid in ((0, "GPU-a1"), (1, "GPU-b2")):
        told = tmp_path / f"0000:0{minor}:00.0" / "information"
        told.parent.mkdir()
        told.write_text(f"Model: \t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")
    assert node_of("GPU-b2", tmp_path) == "/dev/nvidia1"
    assert node_of("GPU-c3", tmp_path) == r"/dev/nvidia\d+"
