"""Who may import whom, and what must stay cheap to import."""

from __future__ import annotations

import subprocess
import sys

from importlinter.cli import lint_imports


def test_layers(capsys) -> None:  # type: ignore[no-untyped-def]
    assert lint_imports(cache_dir=None) == 0, capsys.readouterr().out


def test_starting_imports_no_framework() -> None:
    program = (
        "import engine.cli.main, engine.cli.run, engine.cli.inspect, engine.cli.session,"
        "engine.cli.trace, sys;"
        "print(sorted({'torch', 'anthropic', 'rich', 'numpy', 'opentelemetry'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
