"""One table of all that the parts of ``gpu_sandbox.sh`` measured, from the files they left.

    python -m benchmarks.gpu_summary FOLDER

FOLDER holds ``verdicts.json``, ``throughput.json``, ``compile.json``, ``kernelbench.json`` and, of
``pytest tests/attacks -m gpu --junitxml``, ``attacks.xml``, as far as they were made. Below the
table stands when each was: a part may have been run at another time than the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

from benchmarks.junit import cases_of
from benchmarks.table import Table

__all__ = ["attack_rows", "main", "rows_of"]

Row: TypeAlias = tuple[str, str, str, str]
"""What, the goal, what was measured, and a peer's figure."""

_PARTS = (
    "verdicts.json",
    "throughput.json",
    "compile.json",
    "kernelbench.json",
    "claims.json",
    "attacks.xml",
)
_KINDS = {
    "test_attack_cuda": ("attacks that must not succeed", "100 %", "withstood"),
    "test_honest_cuda": ("honest candidates", "none rejected", "accepted"),
}
"""A test's name: what it says something about, the goal, and what a pass means."""


def rows_of(path: Path) -> list[Row]:
    """The rows that a part's table had. Raises ``ValueError`` for a file that is none of these."""
    if path.suffix == ".xml":
        return attack_rows(path)
    found = json.loads(path.read_text())
    try:
        return [(what, goal, measured, peer) for what, goal, measured, peer in found["rows"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no rows of a table: measure it again") from error


def attack_rows(path: Path) -> list[Row]:
    """Of pytest's JUnit file: how many attacks were withstood, how many honest ones accepted."""
    rows = []
    for test, (what, goal, passing) in _KINDS.items():
        cases = cases_of([path], test)
        if not cases.tried:
            continue
        told = f"{len(cases.passed)} of {cases.tried} {passing}"
        told += f", {len(cases.skipped)} not tried" if cases.skipped else ""
        told += f"; not: {', '.join(cases.failed)}" if cases.failed else ""
        rows.append((what, goal, told, "-"))
    return rows


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args(words).folder
    made = [path for name in _PARTS if (path := folder / name).is_file()]
    if not made:
        print(f"{folder}: no part has left a file", file=sys.stderr)
        return 3
    try:
        parts = [(path, rows_of(path)) for path in made]
    except (ValueError, ElementTree.ParseError) as error:
        print(f"{error}", file=sys.stderr)
        return 3
    table = Table("all of it")
    for _, rows in parts:
        for row in rows:
            table.row(*row)
    for path, _ in parts:
        when = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
        print(f"{path.name}: of {when:%Y-%m-%d %H:%M}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
