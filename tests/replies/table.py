"""The corpus as a table for docs/replies.md: ``python -m tests.replies.table``."""

from __future__ import annotations

from collections.abc import Iterator

from .shapes import SHAPES

__all__ = ["table_lines"]


def table_lines() -> Iterator[str]:
    yield "| shape | server | model | role | read as |"
    yield "|---|---|---|---|---|"
    for shape in SHAPES:
        reason = shape.expect.get("reason")
        read = f"asked again: {reason}" if reason else shape.expect["via"]
        cells = (_cell(shape.shape), shape.server, shape.model, shape.role, read)
        yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Marks of models are no HTML."""
    return text.replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    for line in table_lines():
        print(line)
