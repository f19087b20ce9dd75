"""Grounded instruction, checked by machine: is this plan the selected source, marked?

A plan may add to the source of the selected node only tags and, between them, comment
lines. ``ground`` aligns what the agent returned with that source line by line and
rebuilds the annotated text from the source's own lines, so that an accepted plan differs
from its source in nothing but what was asked for. Blank lines and trailing white space
don't count; indentation does.
"""

from __future__ import annotations

import msgspec

from agents.replies.alignment import (
    Alignment,
    Mismatch,
    Original,
    Step,
    TooManyReadings,
    align,
    comment,
)
from agents.replies.anchors import (
    BEGIN,
    END,
    Item,
    Span,
    anchored_spans,
    balance,
    has_anchors,
    scan,
    strip_anchors,
)
from agents.replies.edits import Edits, edits_inside

__all__ = ["Edits", "Grounded", "Rejected", "Span", "anchored_spans", "edits_inside", "ground"]
__all__ += ["has_anchors", "strip_anchors"]


class Grounded(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted plan: the whole source with its tags and advice in place."""

    annotated: str
    anchors: int
    spliced: bool
    """True when the agent returned a fragment, which was put into the whole."""


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that can't be used, with one line that tells the agent why."""

    reason: str


def ground(annotated: str, node_source: str, *, splice: bool = True) -> Grounded | Rejected:
    """Check ``annotated`` against the selected node's source.

    With ``splice``, a fragment that fits in exactly one place is put into the whole.
    """
    items = scan(annotated)
    problem = balance(items)
    if problem is not None:
        return Rejected(reason=problem)
    try:
        return _aligned(items, Original(node_source), splice=splice)
    except TooManyReadings:
        return Rejected(
            reason="The returned source can't be told from the selected attempt's in reasonable"
            " time: return it complete, with fewer added comments and nothing repeated."
        )


def _aligned(items: list[Item], original: Original, *, splice: bool) -> Grounded | Rejected:
    whole = align(items, original, start=0, to_end=True)
    if isinstance(whole, Alignment):
        return _accept(items, original, whole, spliced=False)
    places = _places(items, original) if splice else []
    if len(places) > 1:
        return Rejected(
            reason="The returned fragment fits in several places of the source: "
            "return the complete source with the block marked."
        )
    if places:
        return _accept(items, original, places[0], spliced=True)
    return Rejected(reason=_explain(items, original, whole))


def _accept(
    items: list[Item], original: Original, alignment: Alignment, *, spliced: bool
) -> Grounded | Rejected:
    opened, filled = 0, False
    for item, step in zip(items, alignment.steps, strict=True):
        if item.kind == "begin":
            opened, filled = item.line, False
        elif item.kind == "line":
            filled = filled or step.matched
        elif not filled:
            return Rejected(
                reason=f"The block marked on line {opened} holds none of the source's lines: "
                "mark the code to be changed."
            )
    return Grounded(
        annotated=_rebuild(items, original, alignment),
        anchors=sum(item.kind == "begin" for item in items),
        spliced=spliced,
    )


def _places(items: list[Item], original: Original) -> list[Alignment]:
    """The alignments of a fragment, one for each place where it fits, two at most."""
    found: list[Alignment] = []
    for start in range(len(original.lines)):
        alignment = align(items, original, start=start, to_end=False)
        if isinstance(alignment, Alignment) and any(step.matched for step in alignment.steps):
            found.append(alignment)
            if len(found) == 2:
                break
    return found


def _rebuild(items: list[Item], original: Original, alignment: Alignment) -> str:
    """The original's own lines with the tags and the added comments between them."""
    out: list[str] = []
    row = 0
    for item, step in zip(items, alignment.steps, strict=True):
        here = original.rows[step.before.index]
        if item.kind != "end":
            # Blank lines, and what precedes a fragment, go before a tag or a comment.
            out += original.raw[row:here]
            row = max(row, here)
        if item.kind != "line":
            out.append(_tag(item, original.in_string(step.before.index)))
        elif step.matched:
            line = original.lines[step.before.index]
            if item.text != line:  # a comment behind the code moves to a line above it
                indent = line[: len(line) - len(line.lstrip())]
                out.append(indent + item.text[len(line) :].strip())
            out.append(original.raw[here])
            row = here + 1
        else:
            out.append(_advice(item.text, step, original))
    return "\n".join(out + original.raw[row:])


def _advice(text: str, step: Step, original: Original) -> str:
    """An added comment, with a ``#`` inside a string turned into C++'s ``//``."""
    hashed = text.lstrip().startswith("#") and not step.before.block
    if hashed and original.in_string(step.before.index):
        return text.replace("#", "//", 1)
    return text


def _tag(item: Item, in_string: bool | None) -> str:
    tag = BEGIN if item.kind == "begin" else END
    hash_style = item.hash_style if in_string is None else not in_string
    return f"{item.indent}# {tag}" if hash_style else f"{item.indent}/* {tag} */"


def _explain(items: list[Item], original: Original, mismatch: Mismatch) -> str:
    """What the agent should do differently, in one line."""
    expected = (
        original.lines[mismatch.index].strip() if mismatch.index < len(original.lines) else ""
    )
    if mismatch.item == len(items):
        return (
            f"The returned source stops before {_quote(expected)}, or leaves lines out: return "
            "the complete source of the selected attempt."
        )
    item = items[mismatch.item]
    where = f"Line {item.line} of the returned source, {_quote(item.text.strip())},"
    inside = sum({"begin": 1, "end": -1}.get(i.kind, 0) for i in items[: mismatch.item]) == 1
    if item.kind != "line":
        return f"The tag on line {item.line} stands inside a comment: close the comment first."
    if "..." in item.text and "..." not in expected:
        return f"{where} leaves code out: return the complete source, without abbreviations."
    if item.text.strip() == expected:
        return f"{where} has another indentation than the source: change nothing but comments."
    if comment(item.text.strip(), None) is not None:
        if inside:
            return (
                f"{where} is no comment where it stands: use # in Python, and // or /* */ "
                "inside a string that holds C++."
            )
        return f"{where} is added outside the marked block: write advice between the tags only."
    should = f"should read {_quote(expected)}" if expected else "is not in the source"
    return f"{where} {should}: return the source unchanged but for tags and comments."


def _quote(text: str) -> str:
    short = text if len(text) <= 80 else text[:77] + "…"
    return f"`{short}`"
