"""Tables for people: Markdown that is also aligned in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.cli.views.draw import printable

__all__ = ["table_lines"]


def table_lines(
    names: Sequence[str], rows: Iterable[Sequence[Any]], *, longest: int = 60
) -> Iterator[str]:
    """A header, a rule, and a line a row; numbers to the right, cells cut at ``longest``."""
    shown = [list(row) for row in rows]
    cells = [[_cell(value, longest) for value in row] for row in shown]
    widths = [max(3, *map(len, column)) for column in zip(names, *cells, strict=True)]
    right = [_numeric([row[at] for row in shown]) for at in range(len(names))]
    yield _line(names, widths, right)
    rules = [
        "-" * (width - 1) + (":" if to_right else "-")
        for width, to_right in zip(widths, right, strict=True)
    ]
    yield _line(rules, widths, right)
    for row in cells:
        yield _line(row, widths, right)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def _numeric(column: list[Any]) -> bool:
    there = [value for value in column if value is not None]
    return bool(there) and all(isinstance(value, int | float) for value in there)


def _cell(value: Any, longest: int) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    text = printable(text).replace("\n", "⏎").replace("\t", " ").replace("|", "\\|")
    return text if len(text) <= longest else text[: longest - 1] + "…"
