"""What the machine is like beside a candidate: clocks, others on the device, the host's memory.

``-s`` prints figures.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from events.outcomes import Correct, Crashed
from gpu_sandbox.api.evaluator import BaselineRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu.test_sandbox_cuda import SMALL, candidate, judge, request

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

HONEST = candidate("return torch.relu(a + b)")

PROBE = """
import os, statistics, time, torch
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.contention.foreign_processes import ForeignProcesses
from gpu_sandbox.cuda.nvml import nvml_of
device = torch.device("cuda:0")
block = torch.zeros(1 << 28, device=device)
began = time.perf_counter()
nvml = nvml_of(device)
opened = time.perf_counter() - began
assert nvml is not None
clocks = Clocks(nvml)
costs = []
for _ in range(200):
    block.add_(1)
    torch.cuda.synchronize()
    began = time.perf_counter()
    reading = clocks.read()
    costs.append(1e6 * (time.perf_counter() - began))
    assert reading is not None and 100 < reading.sm_mhz < 5000, reading
began = time.perf_counter()
listed = nvml.processes()
asked = time.perf_counter() - began
print(f"open {1e3 * opened:.1f} ms, reading {statistics.median(costs):.0f} us, at most "
      f"{max(costs):.0f} us, processes {1e3 * asked:.2f} ms, {clocks.conditions()}")
print(f"we are {os.getpid()}; listed {listed}; used {nvml.used_bytes()}")
assert listed is not None
"""

STRANGER = """
import torch
block = torch.zeros(1 << 30, device="cuda:0")
torch.cuda.synchronize()
print("there", flush=True)
input()
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clocks-cache")


@contextmanager
def python(source: str) -> Iterator[subprocess.Popen[str]]:
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", source]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as running:  # type: ignore[call-overload]
        yield running
        running.communicate()


def test_what_the_driver_says() -> None:
    with python(PROBE) as probe:
        said, _ = probe.communicate()
    print(f"\n{said}")
    assert probe.returncode == 0


async def test_a_foreign_process_on_the_device_is_noticed_and_named(cache: Path) -> None:
    """Where the driver gives numbers of another namespace, or hides others, it says that much."""
    async with LocalSandbox(("cuda:0",), limits=Limits(bench_s=0.5), cache=cache) as sandbox:
        with python(STRANGER) as stranger:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "there\n"
            beside = await judge(sandbox, "beside a stranger", request(SMALL, HONEST))
        await anyio.sleep(1)
        alone = await judge(sandbox, "alone", request(SMALL, HONEST))
    assert isinstance(beside.outcome, Correct)
    noted = [note for note in beside.notes if "on the device" in note or "can't be seen" in note]
    assert noted
    if "pid" in noted[0]:
        assert f"pid {stranger.pid}" in noted[0]
    assert not [note for note in alone.notes if f"pid {stranger.pid}" in note]


async def test_what_is_set_aside_and_what_it_costs(cache: Path) -> None:
    """Nothing of an honest kernel on a device with nothing else to do, or nearly."""
    spent = []
    async with LocalSandbox(("cuda:0",), limits=Limits(bench_s=1.0), cache=cache) as sandbox:
        for number in range(5):
            verdict = await judge(sandbox, f"honest {number}", request(SMALL, HONEST, seed=number))
            assert isinstance(verdict.outcome, Correct)
            assert 0.9 < verdict.outcome.speedup < 1.1
            spent.append(verdict.timings_s["bench"])
        found = await sandbox.baseline(
            BaselineRequest(
                task_name="t", task_source=SMALL, device="cuda:0", protocol="strict", seed=1
            )
        )
    print(f"\nbench {statistics.median(spent):.2f} s; {found.conditions} {found.notes}")
    lowest, highest = found.conditions["clocks.sm.timed"]
    assert 100 < lowest <= highest < 5000
    assert "clocks.lowered_by" in found.conditions


FORKED = """if os.fork() == 0:
    held = bytearray(os.urandom(1 << 20) * 3000)
    time.sleep(100)
held = bytearray(os.urandom(1 << 20) * 3000)
time.sleep(100)
return held"""


async def test_host_memory_without_a_cgroup_is_watched(cache: Path) -> None:
    """Six gigabytes by two processes, under a limit of four; a device that is usable afterwards."""
    limits = Limits(bench_s=0.5, call_s=60.0, memory_bytes=4 << 30)
    where = {"limits": limits, "cache": cache, "without_layers": ("cgroup",)}
    async with LocalSandbox(("cuda:0",), **where) as sandbox:  # type: ignore[arg-type]
        bomb = await judge(
            sandbox, "bomb", request(SMALL, candidate(FORKED, "import os\nimport time"))
        )
        honest = await judge(sandbox, "honest after it", request(SMALL, HONEST))
    print(f"\n{honest.isolation}")
    assert isinstance(bomb.outcome, Crashed)
    assert "its memory limit" in bomb.outcome.reason
    assert isinstance(honest.outcome, Correct)
    assert "memory:watched" in honest.isolation


PINNED = """held = []
for _ in range(6):
    held.append(torch.ones(1 << 28, pin_memory=True))
with open("/proc/self/status") as file:
    print([line.split()[:2] for line in file if line.startswith("Rss")])
time.sleep(1)
raise RuntimeError("six gigabytes are pinned")"""


async def test_a_bomb_of_pinned_memory_costs_its_own_candidate_only(cache: Path) -> None:
    """Whether it is counted is the driver's doing: see what is printed."""
    limits = Limits(bench_s=0.5, call_s=60.0, memory_bytes=4 << 30)
    where = {"limits": limits, "cache": cache, "without_layers": ("cgroup",)}
    async with LocalSandbox(("cuda:0",), **where) as sandbox:  # type: ignore[arg-type]
        bomb = await judge(sandbox, "pinned", request(SMALL, candidate(PINNED, "import time")))
        honest = await judge(sandbox, "honest after it", request(SMALL, HONEST))
    assert isinstance(bomb.outcome, Crashed)
    assert isinstance(honest.outcome, Correct)
