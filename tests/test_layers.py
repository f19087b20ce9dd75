"""Who may import whom, and what must stay cheap to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process


def test_layers() -> None:
    """In a process of its own: it turns off all loggers that there are."""
    program = "import sys; from importlinter.cli import lint_imports as lint;"
    program += "sys.exit(lint(cache_dir=None))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_starting_imports_no_framework() -> None:
    program = (
        "import sys, engine.cli.main, engine.cli.run.run, engine.cli.run.session;"
        "import engine.cli.inspect.inspect, engine.cli.analyse.trace;"
        "print(sorted({'torch', 'anthropic', 'rich', 'numpy', 'opentelemetry'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
