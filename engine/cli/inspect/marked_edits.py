"""What implementations changed of what they were to change, out of a log's texts."""

from __future__ import annotations

from engine.cli.address import Opened
from events.errors import BlobRedacted
from projections.search.instructions import Edits
from projections.search.tree import Tree

__all__ = ["edits_in"]


def edits_in(opened: Opened, tree: Tree) -> dict[int, Edits]:
    """By node; those whose texts were left out of a redacted copy are missing.

    Raises ``LogError``.
    """
    from agents.replies.edits import edits_of

    def text(sha256: str) -> str | None:
        try:
            return opened.reader.text(sha256)
        except BlobRedacted:
            return None

    return edits_of(tree, text)
