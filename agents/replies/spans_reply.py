"""A reply that holds only what changes: replacements of the marked blocks, and definitions.

As through the tool, as JSON of the same fields, or as fenced code: a block for each marked
one, in order, then one for each definition, whose first line may say ``# before: LINE``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from agents.clients.port import Reply
from agents.clients.structured import json_object
from agents.replies.grounding import Rejected
from agents.replies.reply_text import answered, clean, code_block, fences, outside, unfenced
from agents.replies.splicing import Definition, Spans

__all__ = ["SpansAnswer", "as_fences", "read_spans"]

_BEFORE = re.compile(r"\A\s*(?:#|//)\s*before:[ \t]*(.*)\n", re.IGNORECASE)


class SpansAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and how it came: ``tool``, ``json`` or ``fence``."""

    via: str
    spans: Spans
    explanation: str


def read_spans(reply: Reply, blocks: int) -> SpansAnswer | Rejected:
    """The answer for a source with so many marked blocks."""
    text = answered(reply.text)
    written = json_object(unfenced(text.strip()).strip()) or {}
    for via, fields in (("tool", reply.tool_input or {}), ("json", written)):
        if "replacements" in fields:
            return _structured(via, fields)
    found = fences(text)
    if reply.cut_off and (not found or not found[-1].closed):
        return Rejected(
            reason="The reply was cut off at the output limit before the code was complete: "
            "answer more briefly."
        )
    if not found:
        return Rejected(
            reason="The reply holds no answer with `replacements` through the tool, and no fenced"
            " code block."
        )
    codes = [block.text.removesuffix("\n") for block in found]
    spans = Spans(replacements=codes[:blocks], definitions=[_definition(c) for c in codes[blocks:]])
    return SpansAnswer(via="fence", spans=spans, explanation=outside(text))


def as_fences(answer: SpansAnswer) -> str:
    """The same answer as prose and fenced code, whichever way it came. Code within the prose is
    left out: it would be read as a replacement."""
    prose = answer.explanation
    while fences(prose):  # what was outside may begin with a fence once it is trimmed
        prose = outside(prose)
    codes = [*answer.spans.replacements, *map(_headed, answer.spans.definitions)]
    return "\n".join([prose + "\n"] * bool(prose) + [code_block(code) for code in codes])


def _headed(definition: Definition) -> str:
    """With the line that it goes before, if any, and where its own first line looks like that."""
    code, before = definition.code, definition.before.strip()
    return f"# before: {before}\n{code or chr(10)}" if before or _BEFORE.match(code) else code


def _structured(via: str, fields: Mapping[str, Any]) -> SpansAnswer | Rejected:
    given, more = fields["replacements"], fields.get("definitions") or []
    replacements = [given] if isinstance(given, str) else given
    try:
        spans = msgspec.convert({"replacements": replacements, "definitions": more}, Spans)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`$.", "`")
        return Rejected(
            reason=f"The answer's fields are not as asked for: {problem}. `replacements` is a list"
            " of texts, `definitions` one of objects with `code` and `before`."
        )
    explanation = fields.get("explanation")
    return SpansAnswer(
        via=via,
        spans=Spans(
            replacements=[unfenced(clean(text)) for text in spans.replacements],
            definitions=[
                Definition(code=unfenced(clean(added.code)), before=clean(added.before))
                for added in spans.definitions
            ],
        ),
        explanation=clean(explanation).strip() if isinstance(explanation, str) else "",
    )


def _definition(code: str) -> Definition:
    place = _BEFORE.match(code)
    if place is None:
        return Definition(code=code)
    return Definition(code=code[place.end() :], before=place[1])
