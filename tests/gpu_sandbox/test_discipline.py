"""Children are started clean, and none outlives its evaluation, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from events.outcomes import Correct, Crashed, TimedOut
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.supervise.child_process import Output
from gpu_sandbox.supervise.run_directory import remove_stale
from tests.gpu_sandbox.conftest import evaluation, left_behind
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, candidate
from tests.processes import processes_with

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


ROOT = Path(__file__).parents[2]


async def test_a_child_sees_no_secrets_no_files_and_a_private_home(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    (tmp_path / "open").write_text("x")
    look = """
import os, resource, sys
print("SECRETS", [k for k in os.environ if "KEY" in k or k.endswith("TOKEN")])
print("HOME", os.environ["HOME"], os.environ["TMPDIR"])
print("STDIN", os.readlink("/proc/self/fd/0"))
links = (f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd"))
opened = [os.readlink(link) for link in links if os.path.islink(link)]
print("FILES", [p for p in opened if p.startswith("/") and not p.startswith(("/dev/", "/memfd:"))])
print("LEADER", os.getpid() == os.getpgrp() == os.getsid(0))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print("CORE", resource.getrlimit(resource.RLIMIT_CORE))
print("DESCRIPTORS", resource.getrlimit(resource.RLIMIT_NOFILE)[1])
print("ARGV", sys.argv[1:])
raise SystemExit("done")
"""
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, candidate("return a", before=look)))
    said = verdict.run_log
    assert "SECRETS []" in said
    assert "gpu-sandbox-runs-" in said.split("HOME ")[1].splitlines()[0]
    assert "STDIN /dev/null" in said
    assert "FILES []" in said
    assert "LEADER True" in said
    assert "CORE (1, 1)" in said, "with less the host's helper is started"
    assert "DESCRIPTORS 1024" in said
    assert "ARGV []" in said
    assert left_behind(tmp_path, waiting=True) == []


async def test_a_flood_does_not_block_and_is_cut(sandbox: LocalSandbox) -> None:
    forward = "print('begin')\nfor _ in range(300): print('x' * 10000)\nprint('end')\nraise OSError"
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, candidate(forward)))
    assert isinstance(verdict.outcome, Crashed)
    assert len(verdict.run_log) < 70_000
    assert "begin" in verdict.run_log
    assert "bytes dropped" in verdict.run_log
    assert verdict.run_log.endswith("end")


async def test_what_is_printed_without_end_leaves_others_their_turn() -> None:
    endless = os.open("/dev/zero", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    output = Output(endless, 1 << 16)
    with anyio.move_on_after(0.2) as scope:
        await output.drain()
    assert scope.cancelled_caught
    assert "bytes dropped" in output.text()


async def test_a_daemon_that_leaves_the_group_is_swept_up(
    sandbox: LocalSandbox, tmp_path: Path
) -> None:
    mark = f"sleeper-{os.getpid()}-{time.monotonic_ns()}"
    start = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"],
                 start_new_session=True)
"""
    verdict = await sandbox.evaluate(
        evaluation(ADD_RELU, candidate("return torch.relu(a + b)", before=start))
    )
    assert isinstance(verdict.outcome, Correct)
    with anyio.fail_after(10):  # the verdict does not wait for it
        while processes_with(mark) or left_behind(tmp_path, waiting=True):  # noqa: ASYNC110 (others do it)
            await anyio.sleep(0.01)


async def test_a_hang_that_ignores_sigterm_is_killed(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    before = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)"
    source = candidate("while True: pass", before=before)
    async with make_sandbox(Limits(call_s=0.5, bench_s=0.1)) as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, TimedOut)
    assert left_behind(tmp_path) == []


@pytest.mark.process
def test_killing_the_engine_kills_its_children(
    tmp_path: Path, sandbox_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL leaves no chance to clean up: the kernel ends the children, the next
    sandbox removes the directory."""
    source = candidate(
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile 1: pass"
    )
    script = textwrap.dedent(
        f"""
        import anyio, pathlib
        from gpu_sandbox.sandbox import LocalSandbox
        from tests.gpu_sandbox.conftest import evaluation, left_behind
        async def main():
            async with LocalSandbox(cache=pathlib.Path({str(sandbox_cache)!r})) as sandbox:
                await sandbox.evaluate(evaluation({ADD_RELU!r}, {source!r}))
        anyio.run(main)
        """
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    engine = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=environment)
    try:
        deadline = time.monotonic() + 30
        seen = 0  # in a row: what tries out the isolation layers comes and goes
        while seen < 20 and time.monotonic() < deadline:
            seen = seen + 1 if len(processes_with(str(tmp_path))) >= 4 else 0
            time.sleep(0.05)
        assert seen == 20, "zygote, verifier, reference, candidate"
    finally:
        engine.send_signal(signal.SIGKILL)
        engine.wait()
    deadline = time.monotonic() + 30
    while processes_with(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_with(str(tmp_path)) == []
    (runs,) = tmp_path.glob("gpu-sandbox-runs-*")
    assert remove_stale(runs) == 1
    assert left_behind(tmp_path) == []


@pytest.mark.process
def test_importing_the_sandbox_leaves_out_what_takes_long() -> None:
    """What a candidate needs is imported by the processes that judge it."""
    script = "import gpu_sandbox.sandbox, sys; print(*{'torch', 'numpy'} & set(sys.modules))"
    run = [sys.executable, "-c", script]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    assert found.split() == []


async def test_memory_that_holds_a_model_once_holds_it_for_every_verdict(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    """The reference's worker lives from one to the next, and must let go of the last model."""
    large = "self.weights = nn.Parameter(torch.empty(1 << 28))  # a gigabyte, never touched"
    task = ADD_RELU.replace(
        "    def forward",
        f"    def __init__(self):\n        super().__init__()\n        {large}\n\n    def forward",
    )
    limits = Limits(bench_s=0.1, memory_bytes=5 << 29)
    async with make_sandbox(limits) as sandbox:
        for _ in range(2):
            verdict = await sandbox.evaluate(evaluation(task, HONEST))
            assert isinstance(verdict.outcome, Correct), verdict
