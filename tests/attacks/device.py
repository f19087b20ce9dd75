"""What is held on a GPU, by our own look at it: memory, and processes that have it open.

The sandbox holds some for as long as it lives: its verifier, the reference's worker and the
next candidate's, each with a context. So what is there after an attack is compared with what
was there before it, when the same sandbox had judged an honest candidate and was at rest.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio

__all__ = ["Held", "Process", "at_rest", "holders", "left_since", "look_at", "node_of", "strangers"]

_KEPT_SHARE = 1 / 64
_MODULES_MB = 512
"""More than this must be an attack's. Of the device's memory a verifier keeps so much between jobs
(``gpu_sandbox/verifier/backends/cuda.py``), and what its and the next worker's contexts load grows
with the tasks that they have seen: libraries, kernels, workspaces of cuBLAS. A process that was
left behind has a context of about as much, and shows by itself."""
_INIT = 1
_NOBODY = 0
_PAUSE_S = 0.3
_MOST_S = 15.0
"""A driver takes seconds to clear up after a process that held most of the memory."""


class Process(NamedTuple):
    """``started``: in clock ticks since the machine did. Pids come again."""

    pid: int
    started: int


class Held(NamedTuple):
    """At one moment. ``pids``: processes that have a GPU open, as far as we may look."""

    used_mb: int
    total_mb: int
    pids: frozenset[int]


def look_at(device: str, others: frozenset[Process] = frozenset()) -> Held:
    """Now, of ``cuda:N`` as this process numbers it, by the driver's tool: torch would take a
    context. ``others``: whose processes do not count (``strangers``)."""
    number = int(device.partition(":")[2] or "0")
    listed = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    query = "--query-gpu=uuid,memory.used,memory.total"
    named = f"--id={listed[number] if listed else number}"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", named]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    uuid, used, total = (word.strip() for word in told.split(","))
    return Held(int(used), int(total), holders(node_of(uuid), others))


def node_of(uuid: str, driver: Path = Path("/proc/driver/nvidia/gpus")) -> str:
    """What matches the device node of that GPU; of any, where the driver does not tell."""
    for told in driver.glob("*/information"):
        text = told.read_text()
        minor = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
        if uuid in text and minor:
            return f"/dev/nvidia{minor[1]}"
    return r"/dev/nvidia\d+"


def holders(node: str, others: frozenset[Process] = frozenset()) -> frozenset[int]:
    """Processes that have such a file open; ``node`` is a regular expression. Without ``others``
    and what descends from them: who uses another GPU of this host opens the files of all."""
    return frozenset(
        pid for pid in _pids() if _has(pid, node) and others.isdisjoint(_line(pid) or ())
    )


def strangers() -> frozenset[Process]:
    """Processes with which this one has nothing to do: neither does it descend from them, nor they
    from it. Asked before there is an attack: what one leaves behind is the child of somebody above
    us, or of the first process, which is no stranger."""
    above = _line(os.getpid()) or []
    lines = [line for pid in _pids() if (line := _line(pid))]
    return frozenset(
        line[0]
        for line in lines
        if line[0].pid != _INIT and line[0] not in above and above[0] not in line
    )


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _line(pid: int) -> list[Process] | None:
    """The process, its parent, the parent's, and so on to the first. None if one of them ended
    meanwhile."""
    found: list[Process] = []
    while pid != _NOBODY:
        try:
            told = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return None
        fields = told.rpartition(")")[2].split()
        found.append(Process(pid, int(fields[19])))
        pid = int(fields[1])
    return found


def _has(pid: int, node: str) -> bool:
    with suppress(OSError):  # it has ended, or is not ours to look at
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if re.fullmatch(node, os.readlink(descriptor)):
                    return True
    return False


async def at_rest(look: Callable[[], Held]) -> Held:
    """When two looks in a row see the same, or time is up."""
    seen = await anyio.to_thread.run_sync(look)
    with anyio.move_on_after(_MOST_S):
        while True:
            await anyio.sleep(_PAUSE_S)
            before, seen = seen, await anyio.to_thread.run_sync(look)
            if before == seen:
                break
    return seen


async def left_since(before: Held, look: Callable[[], Held]) -> list[str]:
    """What is held now and was not then, in words: nothing, if it goes within a while."""
    found: list[str] = []
    with anyio.move_on_after(_MOST_S):
        while found := _more(before, await anyio.to_thread.run_sync(look)):  # noqa: ASYNC110
            await anyio.sleep(_PAUSE_S)
    return found


def _more(before: Held, now: Held) -> list[str]:
    found = []
    new = sorted(now.pids - before.pids)
    if len(now.pids) > len(before.pids):
        found.append(f"{len(now.pids) - len(before.pids)} of the processes {new} stay on the GPU")
    grown = now.used_mb - before.used_mb
    if grown > _KEPT_SHARE * now.total_mb + _MODULES_MB:
        found.append(f"{grown} MB of the GPU's memory stay taken")
    return found
