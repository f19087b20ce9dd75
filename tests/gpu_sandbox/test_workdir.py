"""Whatever a candidate leaves in its home is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpu_sandbox.workdir import remove_stale

LEAVES = """
import os, sys
os.chdir(sys.argv[1])
os.mkdir("closed")
os.mkdir("closed/inside")
os.chmod("closed", 0)
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
"""


def test_what_a_killed_engine_left_goes_however_deep_and_closed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "owner.lock").touch()
    subprocess.run([sys.executable, "-c", LEAVES, str(run)], check=True)
    try:
        assert remove_stale(tmp_path) == 1
        assert os.listdir(tmp_path) == []
    finally:
        subprocess.run(["rm", "-rf", str(run)], check=True)
