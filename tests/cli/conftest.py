"""The real command line in real processes, and one finished run to look at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = Path(__file__).parent / "small"

SEARCH = [
    "run", str(SMALL / "task.py"), "--model", f"playbook:{SMALL / 'playbook.toml'}",
    "--device", "cpu",
]  # fmt: skip


def engine_command(*args: object) -> list[str]:
    return [sys.executable, "-m", "engine.cli.main", *map(str, args)]


def environment(**more: str) -> dict[str, str]:
    """Ours, without what configures an engine; with little time for timing."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("ENGINE_", "ANTHROPIC_", "OPENAI_"))
    }
    ours = {"PYTHONPATH": str(Path(__file__).parents[2]), "ENGINE_SANDBOX_BENCH_S": "0.3"}
    return {**kept, **ours, **more}


def run_engine(
    *args: object, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line with a clean environment; returns the finished process."""
    return subprocess.run(
        engine_command(*args), capture_output=True, text=True, cwd=cwd, timeout=300,
        env=environment(**more), stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def start_engine(*args: object, **streams: int) -> subprocess.Popen[str]:
    """What is not named in ``streams`` is thrown away."""
    return subprocess.Popen(
        engine_command(*args), env=environment(), text=True,
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams},
    )  # fmt: skip


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a run of four attempts, two at a time, on trio."""
    log = tmp_path_factory.mktemp("finished") / "log.db"
    done = run_engine(*SEARCH, "--attempts", 5, "--workers", 2, "--backend", "trio", "--log", log)
    assert done.returncode in (0, 4), done.stderr
    return log
