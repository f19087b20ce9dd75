"""What candidates compile when they are called, before they have the device: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from events.outcomes import Correct, Crashed, TimedOut, WrongResult
from gpu_sandbox.devices.lock_files import VARIABLE
from gpu_sandbox.devices.timing_lock import TimingLock, timing_file
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.static_checks.compiles_on_call import compiles_when_called
from tests.gpu_sandbox.conftest import QUICK, evaluation, left_behind
from tests.gpu_sandbox.sources import ADD_RELU, CPP, HONEST, candidate, inline
from tests.processes import processes_with

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
COMPILES = "import os, time\nfrom pathlib import Path\nCOMPILER = torch.compile"
"""Names one, and does not use it: these tests have compilers of their own."""
CACHE = 'cache = Path(os.environ["TRITON_CACHE_DIR"]) / "kernel"'
COMPILER = f"""
{CACHE}
if not cache.exists():
    time.sleep(1)
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text("compiled")
return (a + b).clamp_(min=0)
"""
HANGS = "while True: time.sleep(0.01)"


@pytest.fixture(autouse=True)
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else times anything here."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))


def compiling(forward: str) -> str:
    return candidate(forward.strip(), before=COMPILES)


def preparing(tmp_path: Path) -> dict[int, str]:
    """States of the processes that prepare a candidate, by pid."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            cwd = Path(os.readlink(f"/proc/{name}/cwd"))
            is_candidate = cwd.name == "candidate" or cwd.name.startswith("preparation-")
            comm = Path(f"/proc/{name}/comm").read_text().strip()
            is_other = comm in ("worker", Path(sys.executable).name[:15])  # or a fork not yet named
            if tmp_path in cwd.parents and is_candidate and not is_other:
                stat = Path(f"/proc/{name}/stat").read_text()
                found[int(name)] = stat.rpartition(")")[2].split()[0]
    return found


async def until(true: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not true():  # noqa: ASYNC110 (the kernel tells nobody)
            await anyio.sleep(0.01)


@pytest.mark.parametrize(
    ("line", "compiles"),
    [
        ("import triton.language as tl", True),
        ("import triton", True),
        ("from numba import njit", True),
        ("import cupy as cp", True),
        ("f = torch.compile(torch.relu)", True),
        ("from torch import compile as jit", True),
        ("m.compile(mode='max-autotune')", True),
        ("import re\np = re.compile('x')", False),
        ("x = torch.relu(y)  # torch.compile", False),
        ("from torch.utils.cpp_extension import load_inline", False),
        ("def f(:", False),
    ],
)
def test_which_sources_compile_when_they_are_called(line: str, compiles: bool) -> None:
    assert compiles_when_called(f"import torch\n{line}\n") is compiles


async def test_what_a_preparation_compiled_is_not_compiled_under_the_lease(
    sandbox: LocalSandbox,
) -> None:
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, compiling(COMPILER)))
    assert isinstance(verdict.outcome, Correct), verdict
    assert verdict.timings_s["prepare"] >= 1
    assert verdict.outcome.first_call_ms is not None
    assert verdict.outcome.first_call_ms >= 1000
    assert any("its first call took" in note for note in verdict.notes)


async def test_the_worker_that_is_judged_has_the_files_and_nothing_else(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = f"""
{CACHE}
if "CALLS" not in globals() and cache.exists():
    raise RuntimeError("fresh, and the cache is there")
globals()["CALLS"] = 1
cache.parent.mkdir(parents=True, exist_ok=True)
cache.write_text("compiled")
return (a + b).clamp_(min=0)
"""
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, compiling(once)))
    assert isinstance(verdict.outcome, Crashed)
    assert "fresh, and the cache is there" in verdict.outcome.reason
    monkeypatch.setattr("gpu_sandbox.evaluate.preparation._MAX_HELD_BYTES", 0)
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, compiling(once)))
    assert isinstance(verdict.outcome, Correct), "no more archives are held"


async def test_paths_that_a_compiler_wrote_down_hold_in_the_worker_that_is_judged(
    sandbox: LocalSandbox,
) -> None:
    noting = f"""
{CACHE}
if not cache.exists():
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(str(cache))
Path(cache.read_text()).with_name("tuned").write_text("")
if not (cache.parent / "tuned").exists():
    raise RuntimeError("it was written elsewhere")
return (a + b).clamp_(min=0)
"""
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, compiling(noting)))
    assert isinstance(verdict.outcome, Correct), verdict


async def test_an_output_that_was_kept_in_a_preparation_is_wrong(sandbox: LocalSandbox) -> None:
    keeps = f"""
{CACHE}
if cache.exists():
    return torch.load(cache)
out = (a + b).clamp_(min=0)
cache.parent.mkdir(parents=True, exist_ok=True)
torch.save(out, cache)
return out
"""
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, compiling(keeps)))
    assert isinstance(verdict.outcome, WrongResult)


async def test_who_names_no_compiler_is_not_prepared(sandbox: LocalSandbox) -> None:
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct)
    assert "prepare" not in verdict.timings_s


@pytest.mark.parametrize(
    ("forward", "told"),
    [("raise RuntimeError('no such thing')", "no such thing"), ("os._exit(3)", "exit")],
)
async def test_a_failure_is_told_as_without_a_preparation(
    sandbox: LocalSandbox, forward: str, told: str
) -> None:
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, compiling(forward)))
    assert isinstance(verdict.outcome, Crashed)
    assert told in verdict.outcome.reason
    assert verdict.timings_s.keys() >= {"prepare", "lease"}


async def test_who_does_not_return_is_ended_without_a_lease(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    async with make_sandbox(msgspec.structs.replace(QUICK, call_s=2.0)) as sandbox:
        source = compiling(f"print('is here', flush=True)\n{HANGS}")
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, source))
        reason = "no answer in forward within 2 s"
        assert verdict.outcome == TimedOut(reason=reason, stage="run", limit_s=2.0)
        assert "is here" in verdict.run_log
        assert "lease" not in verdict.timings_s
        assert preparing(tmp_path) == {}
        assert left_behind(tmp_path) == []


async def test_who_tells_of_steps_again_and_again_gets_no_more_time(
    sandbox: LocalSandbox,
) -> None:
    tells = """
if Path("task.py").exists():  # here it is prepared
    import sys
    from gpu_sandbox.ipc.verifier_messages import Step
    frame = sys._getframe()
    while frame.f_code.co_name != "main":
        frame = frame.f_back
    while True:
        for done in ("drawn", "loaded", "called"):
            frame.f_locals["channel"].send(Step(done=done))
        time.sleep(0.1)
return (a + b).clamp_(min=0)
"""
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, compiling(tells)))
    assert isinstance(verdict.outcome, Correct), verdict


async def test_another_verdict_comes_while_one_prepares(
    sandbox: LocalSandbox, tmp_path: Path
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.evaluate, evaluation(ADD_RELU, compiling(HANGS)))
        await until(lambda: preparing(tmp_path))
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
        assert isinstance(verdict.outcome, Correct)
        assert preparing(tmp_path)
        group.cancel_scope.cancel()
    assert preparing(tmp_path) == {}


async def test_who_prepares_lies_still_while_the_device_is_timed(
    sandbox: LocalSandbox, tmp_path: Path
) -> None:
    starts = "import subprocess\nsubprocess.Popen(['sleep', '60'])\n"
    async with anyio.create_task_group() as group:
        source = compiling(starts + HANGS)
        group.start_soon(sandbox.evaluate, evaluation(ADD_RELU, source))
        await until(lambda: len(preparing(tmp_path)) >= 2)
        for _ in range(3):
            async with TimingLock(timing_file("cpu")).held():
                assert set(preparing(tmp_path).values()) == {"T"}
            await until(lambda: not {"T"} & {*preparing(tmp_path).values()})
        group.cancel_scope.cancel()


async def test_who_forks_too_fast_to_be_stopped_is_gone_when_the_device_is_timed(
    sandbox: LocalSandbox, tmp_path: Path
) -> None:
    forks = """
while Path("task.py").exists():  # here it is prepared
    try:
        os.fork()
    except OSError:
        pass
return (a + b).clamp_(min=0)
"""
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.evaluate, evaluation(ADD_RELU, compiling(forks)))
        await until(lambda: len(preparing(tmp_path)) >= 32)
        async with TimingLock(timing_file("cpu")).held():
            assert set(preparing(tmp_path).values()) <= {"T", "Z", "X"}
        group.cancel_scope.cancel()


async def test_time_in_which_it_lies_still_does_not_count(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    naps = COMPILER.replace("time.sleep(1)", "[time.sleep(0.01) for _ in range(100)]")
    found = []
    async with make_sandbox(msgspec.structs.replace(QUICK, call_s=3.0)) as sandbox:

        async def judge() -> None:
            found.append(await sandbox.evaluate(evaluation(ADD_RELU, compiling(naps))))

        async with anyio.create_task_group() as group:
            group.start_soon(judge)
            await until(lambda: preparing(tmp_path))
            async with TimingLock(timing_file("cpu")).held():
                await anyio.sleep(4)
    assert isinstance(found[0].outcome, Correct), found


async def test_nobody_begins_while_the_device_is_timed(
    sandbox: LocalSandbox, tmp_path: Path
) -> None:
    async with anyio.create_task_group() as group:
        async with TimingLock(timing_file("cpu")).held():
            group.start_soon(sandbox.evaluate, evaluation(ADD_RELU, compiling(HANGS)))
            await anyio.sleep(3)
            assert preparing(tmp_path) == {}
        await until(lambda: preparing(tmp_path))
        group.cancel_scope.cancel()


@pytest.fixture
def engine(tmp_path: Path, sandbox_cache: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Prepares a candidate that never ends."""
    script = f"""
import anyio, pathlib
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import QUICK, evaluation
async def main():
    async with LocalSandbox(limits=QUICK, cache=pathlib.Path({str(sandbox_cache)!r})) as sandbox:
        await sandbox.evaluate(evaluation({ADD_RELU!r}, {compiling(HANGS)!r}))
anyio.run(main)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=environment) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("timed", [False, True])
async def test_nothing_is_left_of_a_killed_engine(
    engine: subprocess.Popen[bytes],
    tmp_path: Path,
    timed: bool,
) -> None:
    await until(lambda: preparing(tmp_path))
    lock = TimingLock(timing_file("cpu"))
    if timed:
        await lock.acquire()
        assert set(preparing(tmp_path).values()) == {"T"}
    engine.send_signal(signal.SIGKILL)
    await until(lambda: not preparing(tmp_path) and not processes_with(str(tmp_path)))
    lock.release()
    async with TimingLock(timing_file("cpu")).held():
        pass


@pytest.mark.compiles
async def test_an_extension_of_the_first_call_is_built_before_the_lease(
    sandbox: LocalSandbox,
) -> None:
    build = 'load_inline(name="add_relu", cpp_sources=SOURCE, functions=["add_relu"])'
    source = inline(CPP, late=True).replace(f"self.ext = {build}", "pass")
    source = source.replace("self.ext.add_relu", f"{build}.add_relu")
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "prepare" in verdict.timings_s
    assert not any("under the lease" in note for note in verdict.notes)


@pytest.mark.slow
@pytest.mark.alone
async def test_torch_compile_takes_the_device_for_no_longer_than_its_caches_need(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    chain = "y = torch.softmax((a + b).sin() * b.cos(), -1).cumsum(-1)\nreturn y / (1 + y)"
    task = ADD_RELU.replace("return torch.relu(a + b)", chain.replace("\n", "\n        "))
    source = candidate(
        "return self.compiled(a, b)",
        before="def compute(a, b):\n    " + chain.replace("\n", "\n    "),
        init="self.compiled = torch.compile(compute)",
    )
    began = time.monotonic()
    async with make_sandbox(msgspec.structs.replace(QUICK, call_s=120.0)) as sandbox:
        verdict = await sandbox.evaluate(evaluation(task, source))
    assert isinstance(verdict.outcome, Correct), (verdict, time.monotonic() - began)
    assert verdict.timings_s["prepare"] > 1.5 * verdict.timings_s["lease"]
