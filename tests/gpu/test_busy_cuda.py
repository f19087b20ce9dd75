"""A busy GPU: seen by NVML while nothing of ours runs, and no figure of it is kept.

``-s`` prints figures.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from events.observations import MEASURED
from gpu_sandbox.api.evaluator import BaselineRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu.test_sandbox_cuda import SMALL, candidate, request

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

BASELINE = BaselineRequest(
    task_name="t", task_source=SMALL, device="cuda:0", protocol="strict", seed=7, reuse=True
)
STRANGER = """
import sys, torch
a = torch.rand(4096, 4096, device="cuda")
torch.cuda.synchronize()
print(flush=True)
while sys.argv[1] == "works":
    a @ a
    torch.cuda.synchronize()
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def stranger(what: str) -> Iterator[None]:
    """Another process on the device, that ``works`` or ``waits``."""
    words = [sys.executable, "-c", STRANGER, what]
    running = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdout.readline()
    try:
        yield
    finally:
        running.kill()
        running.wait()
        running.stdin.close()
        running.stdout.close()


def of_the_device(notes: list[str]) -> list[str]:
    """Reasons that are the device's: its cores, and the samples, may be busy for reasons of
    their own."""
    return [
        note for note in notes if note.startswith("busy-machine: ") and "the device was" in note
    ]


def kept(cache: Path) -> list[Path]:
    return [*cache.glob("baselines/*/*")]


async def test_a_baseline_beside_a_stranger_at_work_is_not_kept(tmp_path: Path) -> None:
    limits = Limits(bench_s=1.0)
    async with LocalSandbox(("cuda:0",), limits=limits, cache=tmp_path) as sandbox:
        with stranger("works"):
            busy = await sandbox.baseline(BASELINE)
        print(busy.notes)
        assert of_the_device(busy.notes)
        assert busy.labels == ["busy-machine"]
        assert not kept(tmp_path)
        with stranger("waits"):
            quiet = await sandbox.baseline(msgspec.structs.replace(BASELINE, reuse=False))
        print(quiet.notes, quiet.spread)
        assert not of_the_device(quiet.notes), "it holds memory, and disturbs nobody"
        assert bool(kept(tmp_path)) == (not quiet.labels)


async def test_ceilings_beside_a_stranger_at_work_are_not_shown(tmp_path: Path) -> None:
    honest = request(SMALL, candidate("return torch.relu(a + b)"))
    honest = msgspec.structs.replace(honest, observe=MEASURED)
    limits = Limits(bench_s=0.5)
    async with LocalSandbox(("cuda:0",), limits=limits, cache=tmp_path) as sandbox:
        with stranger("works"):
            busy = await sandbox.evaluate(honest)
    async with LocalSandbox(("cuda:0",), limits=limits, cache=tmp_path / "another") as sandbox:
        quiet = await sandbox.evaluate(honest)
    assert busy.observations is not None
    assert quiet.observations is not None
    print(busy.notes, quiet.notes, quiet.observations.ceilings, sep="\n")
    assert busy.observations.ceilings is None
    assert of_the_device(busy.notes)
    assert not of_the_device(quiet.notes)
    told = [note for note in quiet.notes if note.startswith("busy-machine: no ceilings")]
    assert (quiet.observations.ceilings is None) == bool(told)
