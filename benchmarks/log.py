"""The event log's speed, as ratios and latencies of one run on this machine.

    python -m benchmarks.log [--only append|rebuild|search|decide|follow]

Both sides of a comparison are measured in turns, and a figure is a median over rounds. Each
group of rows is measured by a module of its own, ``benchmarks/log_*.py``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks import log_append, log_decide, log_follow, log_rebuild, log_search
from benchmarks.table import Table

__all__ = ["main"]

_ROWS = {
    "append": log_append.measure,
    "rebuild": log_rebuild.measure,
    "search": log_search.measure,
    "decide": log_decide.measure,
    "follow": log_follow.measure,
}


def main() -> None:
    """Measure what is asked for, by default everything, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.log", description="The log's speed."
    )
    parser.add_argument("--only", choices=_ROWS, action="append", help="These rows only.")
    only = parser.parse_args().only or list(_ROWS)
    table = Table("The log", last="goal met")
    with tempfile.TemporaryDirectory(prefix="stark-bench-") as scratch:
        for name in only:
            _ROWS[name](table, Path(scratch))


if __name__ == "__main__":
    main()
