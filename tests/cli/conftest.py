"""The real command line in real processes, and one finished run to look at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SMALL = Path(__file__).parent / "small"

Engine = Callable[..., "subprocess.CompletedProcess[str]"]

SEARCH = [
    "run", str(SMALL / "task.py"), "--model", f"playbook:{SMALL / 'playbook.toml'}",
    "--device", "cpu",
]  # fmt: skip


def engine_command(*args: object) -> list[str]:
    return [sys.executable, "-m", "engine.cli.main", *map(str, args)]


def run_engine(*args: object, cwd: Path | None = None, **environment: str):  # type: ignore[no-untyped-def]
    """Run the command line with a clean environment; returns the finished process."""
    import os

    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ENGINE_", "ANTHROPIC_"))}
    kept["PYTHONPATH"] = str(Path(__file__).parents[2])
    return subprocess.run(
        engine_command(*args), capture_output=True, text=True, cwd=cwd, timeout=300,
        env={**kept, **environment}, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a run of four attempts, two at a time, on trio."""
    log = tmp_path_factory.mktemp("finished") / "log.db"
    done = run_engine(*SEARCH, "--attempts", 5, "--workers", 2, "--backend", "trio", "--log", log)
    assert done.returncode in (0, 4), done.stderr
    return log
