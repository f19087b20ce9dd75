"""Tables for people: Markdown that is also aligned in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.cli.draw import printable

__all__ = ["table_lines"]

_CELL = 60


def table_lines(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A header, a rule, and a line a row; numbers to the right, long cells cut."""
    shown = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in shown]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    right = [_numeric([row[at] for row in shown]) for at in range(len(names))]
    yield _line(names, widths, right)
    ends = ("-" * (width - 1) + (":" if to_right else "-") for width, to_right in zip(
        [max(width, 3) for width in widths], right, strict=True))  # fmt: skip
    yield f"| {' | '.join(ends)} |"
    for row in cells:
        yield _line(row, widths, right)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        cell.rjust(max(width, 3)) if to_right else cell.ljust(max(width, 3))
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def _numeric(column: list[Any]) -> bool:
    there = [value for value in column if value is not None]
    return bool(there) and all(isinstance(value, int | float) for value in there)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    text = printable(text).replace("\n", "⏎").replace("\t", " ").replace("|", "\\|")
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"
