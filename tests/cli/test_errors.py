"""Bad input: a clear message, the right exit code, no traceback, and nothing lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from agents.clients.known import PREFIXES
from engine.cli.exits import Failure
from engine.cli.main import cli
from engine.cli.source_files import read_task
from tests.cli.conftest import SEARCH, SMALL, engine_command, environment, run_engine

pytestmark = pytest.mark.process

TASK = (SMALL / "task.py").read_text()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:\n", "not a Python file"),
        ("x = 1\n", "no Model, no get_inputs, no get_init_inputs"),
        (TASK.replace("class Model(", "class Modle("), "no Model"),
    ],
)
def test_a_task_that_is_none(tmp_path: Path, source: str, message: str) -> None:
    task, log = tmp_path / "task.py", tmp_path / "log.db"
    task.write_text(source)
    done = run_engine("run", task, *SEARCH[2:], "--log", log)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not log.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("torch.softmax(y, dim=-1)", "torch.softmax(y, dim=7)"), "Dimension out of range"),
        (("torch.softmax(y, dim=-1)", "y + __import__('time').time_ns() % 1009"), "deterministic"),
    ],
)
def test_a_reference_that_cannot_serve(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    task, log = tmp_path / "task.py", tmp_path / "log.db"
    task.write_text(TASK.replace(*change))
    done = run_engine("run", task, *SEARCH[2:], "--log", log)
    assert done.returncode == 2
    assert message in done.stderr
    assert 'Traceback (most recent call last):\n  File "/' not in done.stderr
    status = run_engine("status", log)
    assert "failed" in status.stdout


def test_a_pretrained_model_that_is_not_here(tmp_path: Path) -> None:
    task, log = tmp_path / "task.py", tmp_path / "log.db"
    task.write_text(TASK + '\ndef later(): return AutoModel.from_pretrained("some-org/absent")\n')
    commands = (
        ("run", task, *SEARCH[2:], "--log", log),
        ("eval", task, SMALL / "fused.py", "--device", "cpu"),
        ("baseline", task, "--device", "cpu", "--kinds", "eager"),
    )
    for command in commands:
        done = run_engine(*command, HF_HUB_CACHE=str(tmp_path))
        assert done.returncode == 3, (command, done.stderr)
        assert "hf download some-org/absent" in done.stderr
        assert "Traceback" not in done.stderr
    assert not log.exists()


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("hello")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    for command in ("status", "tree", "verify", "resume", "replay", "best"):
        for path, message in ((text, "not an engine log"), (other, "not an engine log"),
                              (tmp_path / "none.db", "no such log")):  # fmt: skip
            done = run_engine(command, path)
            assert (done.returncode, message in done.stderr) == (2, True), (command, done.stderr)
            assert "Traceback" not in done.stderr
    done = run_engine(*SEARCH, "--log", other)
    assert (done.returncode, "not an engine log" in done.stderr) == (2, True)


def test_a_log_of_a_newer_format(finished: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    log.write_bytes(finished.read_bytes())
    with sqlite3.connect(log) as connection:
        connection.execute("PRAGMA user_version = 99")
    done = run_engine("status", log)
    assert (done.returncode, "update engine" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--set", "search.epsilom=0.4"], "did you mean search.epsilon?"),
        (["--set", "search.epsilon=high"], "search.epsilon: "),
        (["--set", "search.epsilon=1.5"], "search.epsilon must be between 0 and 1"),
        (["--set", "epsilon"], "write KEY=VALUE"),
        (["--attempts", "0"], "budget.attempts must be at least 1"),
        (["--budget-usd", "inf"], "budget.usd must be a finite number"),
        (["--set", "roles.plan.temperature=nan"], "roles.plan.temperature must be a finite"),
        (["--seed", "99999999999999999999999"], "search.seed"),
        (["--set", "search.method=[1]"], "search.method: "),
        (["--set", "sandbox.threads=0"], "sandbox.threads must be at least 1, or null"),
        (["--set", "search.root_throttle=0"], "search.root_throttle must be at least 1, or null"),
        (["--set", "roles.code.timeout_s=-1"], "roles.code.timeout_s must be above 0"),
        (
            ["--protocol", "quick"],
            "(known: strict, strict-tf32, strict-bf16, verified, kernelbench, paper)",
        ),
        (
            ["--set", 'roles.plan.observations=["compiler", "profle"]'],
            "roles.plan.observations[1]: Invalid enum value 'profle' (known: compiler, execution,"
            " error, timing, resources, roofline, profile, counters; did you mean profile?)",
        ),
        (
            ["--method", "reflect"],
            "search.method: Invalid enum value 'reflect' (known: stark, sampling",
        ),
        (["--set", "search.tournament=0"], "search.tournament must be at least 1"),
        (["--model", "playbook:none.toml"], "none.toml"),
        (["--model", "magic:m"], "unknown model"),
        (["-c", "none.toml"], "none.toml"),
    ],
)
def test_configuration_that_is_wrong(args: list[str], message: str, tmp_path: Path) -> None:
    done = run_engine(*SEARCH, *args, cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.db"))


def test_file_environment_and_flag_in_that_order(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("[search]\nepsilon = 0.1\nseed = 1\nworkers = 2000\n")
    done = run_engine(*SEARCH, "-c", config, ENGINE_SEARCH_WORKERS="3000", cwd=tmp_path)
    assert "search.workers must be between" in done.stderr
    config.write_text("[serch]\nepsilon = 0.1\n")
    done = run_engine(*SEARCH, "-c", config, cwd=tmp_path)
    assert "unknown key serch" in done.stderr
    config.write_text("search = [")
    assert "not TOML" in run_engine(*SEARCH, "-c", config, cwd=tmp_path).stderr


def test_no_key_says_what_to_do(tmp_path: Path) -> None:
    done = run_engine(
        "run", SMALL / "task.py", "--model", "anthropic:claude-sonnet-5-5", "--device", "cpu",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3
    assert "ANTHROPIC_API_KEY" in done.stderr


def test_a_language_that_does_not_run_on_the_device(tmp_path: Path) -> None:
    done = run_engine(*SEARCH, "--preset", "paper", cwd=tmp_path)  # which is about CUDA
    assert (done.returncode, "runs on the CPU: give --language cpp" in done.stderr) == (2, True)
    assert not list(tmp_path.glob("runs/*.db"))


def test_paid_calls_are_not_made_unasked(tmp_path: Path) -> None:
    done = run_engine(
        "run", SMALL / "task.py", "--model", "anthropic:claude-sonnet-5-5", "--device", "cpu",
        cwd=tmp_path, ANTHROPIC_API_KEY="sk-none", ANTHROPIC_BASE_URL="http://127.0.0.1:9",
    )  # fmt: skip
    assert done.returncode == 2
    assert "will be sent to anthropic:claude-sonnet-5-5" in done.stderr
    assert "Expected: 60 calls, " in done.stderr
    assert "At most: 180 calls, " in done.stderr
    assert "--yes" in done.stderr
    assert "sk-none" not in done.stdout + done.stderr


def test_a_budget_needs_a_price(tmp_path: Path) -> None:
    done = run_engine(
        "run", SMALL / "task.py", "--model", "anthropic:unheard-of", "--device", "cpu",
        "--budget-usd", "1", cwd=tmp_path, ANTHROPIC_API_KEY="sk-none",
    )  # fmt: skip
    assert (done.returncode, "needs a price" in done.stderr) == (2, True)


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    for device in ("cuda:7", "tpu"):
        done = run_engine(*SEARCH[:-1], device, cwd=tmp_path)
        assert done.returncode == 3, done.stderr
        assert device in done.stderr
        assert "Traceback" not in done.stderr


def test_every_client_is_named_in_the_help_and_in_the_docs() -> None:
    told = "".join(run_engine("run", "--help").stdout.split())  # lines break at hyphens, too
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for prefix, what in PREFIXES.items():
        assert f"{prefix}:{what}" in told
        assert f"\n- `{prefix}:{what}`: " in page


def test_help_is_quick_and_complete() -> None:
    done = run_engine("--help")
    assert done.returncode == 0
    for command in ("run", "resume", "eval", "ls", "status", "tree", "show", "prompt", "best",
                    "replay", "verify", "doctor"):  # fmt: skip
        assert f"  {command} " in done.stdout
        assert run_engine(command, "--help").returncode == 0


@pytest.mark.parametrize(
    ("history", "more", "why"),
    [
        ("stark", [], "the run is finished; add attempts with --attempts +N"),
        ("stark", ["--budget-usd", "+1"], "the run has no such budget"),
        ("budget", [], "the device budget is used up; add to it with --budget-device-s +N"),
        ("budget", ["--budget-device-s", "+0.001"], "the device budget is used up; add to it"),
        ("budget", ["--attempts", "+9"], "the device budget is used up; add to it"),
        ("mailed", ["--attempts", "+1", "--mailbox", "nowhere"], "is not here"),
    ],
)
def test_a_resume_that_is_refused_leaves_the_log_as_it_is(
    history: str, more: list[str], why: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.db"
    shutil.copy(Path(__file__).parents[1] / "histories" / f"{history}.db", log)
    before = log.read_bytes()
    refused = CliRunner().invoke(cli, ["resume", str(log), *more]).exception
    assert isinstance(refused, Failure)
    assert why in str(refused)
    assert [path.name for path in tmp_path.iterdir()] == ["log.db"], "no lock, no -wal"
    assert log.read_bytes() == before


def test_what_one_candidate_lacks_is_not_the_others_end(tmp_path: Path) -> None:
    needs = tmp_path / "needs_compiler.py"
    needs.write_text((SMALL / "fused.py").read_text() + "\n# may load_inline something\n")
    judged = ("eval", SMALL / "task.py", needs, SMALL / "fused.py", "--device", "cpu")
    for extra in ((), ("--json",)):
        done = run_engine(*judged, *extra, CXX="/nonexistent")
        assert done.returncode == 3, done.stderr
        assert "apt install g++" in done.stderr
        lines = sorted(done.stdout.splitlines())
        assert len(lines) == 2
        if extra:
            assert {json.loads(line)["outcome"] for line in lines} == {"correct", "not_judged"}
        else:
            assert "fused.py: correct" in lines[0] + lines[1]
            assert f"{needs}: not judged: no C++ compiler" in lines[0] + lines[1]


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    for name in ("task", "fused"):
        text = (SMALL / f"{name}.py").read_text()
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8-sig")
    task = tmp_path / "task.py"
    done = run_engine("eval", task, tmp_path / "fused.py", "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_task(task) == (SMALL / "task.py").read_text()


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    judged = ("eval", SMALL / "task.py", SMALL / "fused.py", "--device", "cpu")
    done = run_engine(*judged, XDG_CACHE_HOME=str(tmp_path / "file"))
    assert done.returncode == 0, done.stderr
    assert "fused.py: correct" in done.stdout
    assert done.stderr.count("can't be kept in") == 1
    assert "Not a directory" in done.stderr


def test_a_sandbox_that_cannot_start(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    for command in (
        ("eval", SMALL / "task.py", SMALL / "fused.py", "--device", "cpu"),
        (*SEARCH, "--log", log),
    ):
        done = subprocess.run(
            ["bash", "-c", 'ulimit -v 600000; exec "$@"', "engine", *engine_command(*command)],
            capture_output=True, text=True, timeout=120, env=environment(), check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "engine: the sandbox failed: the zygote did not start" in done.stderr
        assert "engine doctor" in done.stderr
        assert "engine/cli" not in done.stderr, "a traceback of ours"
    assert not log.exists()
