"""The event log's speed, as ratios and latencies of one run on this machine.

    python -m benchmarks.log

Each row is measured by a module of its own, ``benchmarks/log_*.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import log_follow
from benchmarks.table import Table

__all__ = ["main"]


def main() -> None:
    """Measure everything and print the table."""
    table = Table("The log")
    with tempfile.TemporaryDirectory() as scratch:
        log_follow.measure(table, Path(scratch))


if __name__ == "__main__":
    main()
