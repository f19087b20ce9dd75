"""Replacements of a plan's marked blocks, put into the source that the plan marked. Pure.

Outside the blocks the source stays as it was, byte for byte, but for definitions that are
put where the agent says and, in a reference, the new name of its ``Model``.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence

import msgspec

from agents.python_source import MODEL_NEW, syntax_error, tree_of
from agents.replies.anchors import has_anchors, source_lines, strip_anchors
from agents.replies.grounding import Rejected

__all__ = ["Definition", "Spans", "block_count", "spliced"]


_MOST_DEFINITIONS = 64


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """Code for outside the blocks. ``before``: the line that it goes before; empty: behind the
    imports at the top."""

    code: str
    before: str = ""


class Spans(msgspec.Struct, frozen=True, kw_only=True):
    """What replaces each block, in order, and what else that needs."""

    replacements: Sequence[str]
    definitions: Sequence[Definition] = ()

    @property
    def chars(self) -> int:
        """How much was written."""
        added = sum(len(added.code) + len(added.before) for added in self.definitions)
        return sum(map(len, self.replacements)) + added


def block_count(annotated: str) -> int:
    """How many blocks a grounded plan's source has."""
    return sum(has_anchors(line) for line in annotated.split("\n")) // 2


def spliced(annotated: str, spans: Spans) -> str | Rejected:
    """The whole new source. ``annotated`` is a grounded plan's: each tag on its own line."""
    blocks = block_count(annotated)
    if len(spans.replacements) != blocks:
        return Rejected(
            reason=f"The source has {_count(blocks, 'marked block')}, and the reply"
            f" {_count(len(spans.replacements), 'replacement')}: give one for each, in order."
        )
    if len(spans.definitions) > _MOST_DEFINITIONS:
        return Rejected(
            reason=f"The reply has {len(spans.definitions)} definitions: give what goes to the same"
            f" place as one, and at most {_MOST_DEFINITIONS}."
        )
    rows = annotated.split("\n")
    outside = _outside(rows)
    added: dict[int, list[str]] = {}
    for definition in spans.definitions:
        place = _place(definition, annotated, rows, outside)
        if isinstance(place, Rejected):
            return place
        code = _code(definition.code)
        apart = "\n\n" if "\n" in code and not code[0].isspace() else ""
        added.setdefault(place, []).append(code + apart)
    source = "\n".join(_filled(rows, outside, spans.replacements, added))
    return _whole(source, annotated)


def _outside(rows: Sequence[str]) -> list[bool]:
    """Which rows stay: those before, between and behind the blocks."""
    found: list[bool] = []
    inside = False
    for row in rows:
        tag = has_anchors(row)
        found.append(not inside and not tag)
        inside ^= tag
    return found


def _filled(
    rows: Sequence[str],
    outside: Sequence[bool],
    replacements: Sequence[str],
    added: dict[int, list[str]],
) -> list[str]:
    out: list[str] = []
    left = iter(replacements)
    opened = False
    for number, row in enumerate(rows):
        out += added.get(number, ())
        if outside[number]:
            out.append(row)
        elif has_anchors(row):
            opened = not opened
            if opened and (code := _code(next(left))):
                out.append(code)
    return out


def _code(text: str) -> str:
    return strip_anchors("\n".join(source_lines(text))).strip("\n")


def _place(
    definition: Definition, annotated: str, rows: Sequence[str], outside: Sequence[bool]
) -> int | Rejected:
    """The row that a definition goes before."""
    wanted = definition.before.strip()
    if not wanted:
        return _behind_imports(annotated, outside)
    found = [n for n, row in enumerate(rows) if outside[n] and row.strip() == wanted]
    if len(found) == 1:
        return found[0]
    where = "in no line" if not found else "in several lines"
    short = wanted if len(wanted) <= 80 else wanted[:77] + "…"
    return Rejected(
        reason=f"A definition is to go before `{short}`, which stands {where} outside the marked"
        " blocks: name one line of the source that occurs once, word for word, or none."
    )


def _behind_imports(annotated: str, outside: Sequence[bool]) -> int:
    tree, place = tree_of(annotated), 0
    for number, node in enumerate(tree.body if tree else ()):
        docstring = number == 0 and isinstance(node, ast.Expr)
        if not docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            break
        place = node.end_lineno or node.lineno
    while place < len(outside) and not outside[place]:
        place += 1  # imports within a block: behind it
    return place


def _whole(source: str, annotated: str) -> str | Rejected:
    """The new file, if it is one and defines ModelNew."""
    problem = syntax_error(source)
    if problem is not None and tree_of(annotated) is not None:
        return Rejected(
            reason=f"With the replacements in place the file is no Python ({problem}): give each"
            " one with the indentation at which it is to stand."
        )
    if MODEL_NEW.search(source) is None:
        source = _renamed(source)
    if MODEL_NEW.search(source) is None:
        return Rejected(
            reason="With the replacements in place the file defines no ModelNew: keep the class"
            " that is in the source."
        )
    return source if source.endswith("\n") else source + "\n"


def _renamed(source: str) -> str:
    """A reference's ``Model`` becomes ``ModelNew``, wherever that name stands in the code."""
    rows = source.split("\n")
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return source
    pairs = zip([None, *tokens], tokens, strict=False)
    for before, token in reversed(list(pairs)):
        attribute = before is not None and before.string == "."
        if token.type == tokenize.NAME and token.string == "Model" and not attribute:
            row, column = token.start[0] - 1, token.start[1]
            rows[row] = rows[row][:column] + "ModelNew" + rows[row][column + len("Model") :]
    return "\n".join(rows)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
