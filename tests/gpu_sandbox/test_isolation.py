"""What a sandbox does where its candidates can't be isolated as they should be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from events.outcomes import Correct, Crashed
from gpu_sandbox.api.evaluator import PrerequisiteMissing, SandboxFault
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.confine import Survey, Tier
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.supervise.isolation_policy import require_tier
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, candidate

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


@pytest.mark.process
async def test_resource_limits_alone_are_not_enough(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    async with make_sandbox(without_layers=("seccomp",)) as sandbox:
        for work in (
            lambda: sandbox.evaluate(evaluation(ADD_RELU, HONEST)),
            lambda: sandbox.baseline(baseline(ADD_RELU)),
            lambda: sandbox.fingerprint("cpu"),
        ):
            with pytest.raises(PrerequisiteMissing, match="tier C here, and tier B") as refused:
                await work()
        assert "seccomp: turned off" in str(refused.value)
        assert "--allow-weak-isolation" in str(refused.value)


@pytest.mark.process
async def test_unless_that_was_allowed_and_then_the_verdict_says_so(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    weak = make_sandbox(without_layers=("seccomp",), require_isolation="C")
    async with weak as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct)
    assert "missing:seccomp" in verdict.isolation


BOMB = candidate(
    "for _ in range(6):\n"
    "    if os.fork() == 0:\n"
    "        held = b'x' * (230 << 20)\n"
    "        time.sleep(100)\n"
    "time.sleep(100)",
    before="import os\nimport time",
)


@pytest.mark.alone
@pytest.mark.slow
async def test_where_memory_is_watched_a_bomb_costs_its_own_candidate_only(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    """Six children, each of which has less than one process may have."""
    limits = Limits(bench_s=0.1, call_s=60.0, memory_bytes=1 << 30)
    async with make_sandbox(limits, without_layers=("cgroup",)) as sandbox:
        bomb = await sandbox.evaluate(evaluation(ADD_RELU, BOMB))
        honest = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(bomb.outcome, Crashed), (bomb.outcome, bomb.run_log)
    assert "killed by SIGKILL (its memory limit) in forward" in bomb.outcome.reason
    assert isinstance(honest.outcome, Correct)
    assert {"memory:watched", "missing:cgroup"} <= set(honest.isolation)


@pytest.mark.parametrize(("tier", "weakest"), [("A", "A"), ("A", "C"), ("B", "B"), ("C", "C")])
def test_a_tier_that_is_enough(tier: Tier, weakest: Tier) -> None:
    require_tier(surveyed(tier), weakest)


def test_more_can_be_demanded() -> None:
    with pytest.raises(PrerequisiteMissing, match="tier B here, and tier A") as refused:
        require_tier(surveyed("B"), "A")
    assert "namespaces:mount: no CAP_SYS_ADMIN" in str(refused.value)
    assert "--require-isolation B" in str(refused.value)


def surveyed(tier: Tier) -> Survey:
    return Survey(
        layers=("seccomp", "uid"), missing={"namespaces:mount": "no CAP_SYS_ADMIN"}, tier=tier,
        findings=(), machine=None,  # type: ignore[arg-type]
    )  # fmt: skip


WEAK_MACHINE = """
from functools import partial
import engine.cli.run.machine as machine
machine.LocalSandbox = partial(machine.LocalSandbox, without_layers=("seccomp",))
from engine.cli.main import main
main()
"""


@pytest.mark.process
async def test_the_command_line_refuses_with_a_prerequisites_exit_code(tmp_path: Path) -> None:
    small = ROOT / "tests" / "cli" / "small"
    playbook = f"playbook:{small / 'playbook.toml'}"
    log = tmp_path / "log.db"
    words = ["run", small / "task.py", "--device", "cpu", "--model", playbook, "--log", log]
    command = [sys.executable, "-c", WEAK_MACHINE, *map(str, words)]
    done = await anyio.run_process(command, cwd=ROOT, check=False)
    assert done.returncode == 3, done.stderr
    assert b"seccomp: turned off" in done.stderr
    assert b"Traceback" not in done.stderr
    assert not log.exists()


async def test_a_survey_that_is_not_true_any_more_ends_with_the_first_refusal(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    """As when a setting changed that the cached survey's key does not know."""
    place = tmp_path / "cache" / "isolation" / "survey"
    async with make_sandbox(cache=tmp_path / "cache", without_layers=("cgroup",)) as sandbox:
        await sandbox.survey()
    cached = msgspec.msgpack.decode(place.read_bytes())
    cached["survey"]["layers"].append("cgroup")
    cached["survey"]["machine"]["hierarchies"] = [
        {"version": 2, "base": "/nonexistent", "controllers": ["memory", "pids"]}
    ]
    place.write_bytes(msgspec.msgpack.encode(cached))
    async with make_sandbox(cache=tmp_path / "cache", without_layers=("cgroup",)) as sandbox:
        with pytest.raises(SandboxFault, match=r"cgroup: .*No such file"):
            await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    async with make_sandbox(cache=tmp_path / "cache", without_layers=("cgroup",)) as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct)
