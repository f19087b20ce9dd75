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
from agents.replies.answers import CUT_OFF, given_fields, read_text, unfinished
from agents.replies.grounding import Rejected
from agents.replies.markdown import code_block, fences, meant, outside, strict, unfenced
from agents.replies.plain_text import clean, without_special_tokens
from agents.replies.splicing import Definition, Spans
from agents.replies.thoughts import answered

__all__ = ["SpansAnswer", "as_fences", "read_spans"]

_BEFORE = re.compile(r"\A\s*(?:#|//)\s*before:[ \t]*(.*)\n", re.IGNORECASE)


class SpansAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and how it came: ``tool``, ``json`` or ``fence``."""

    via: str
    spans: Spans
    explanation: str


def read_spans(
    reply: Reply, blocks: int, *, keep_invisible: bool = False
) -> SpansAnswer | Rejected:
    """The answer for a source with so many marked blocks."""
    for via, fields in given_fields(reply, ("replacements",), keep_invisible=keep_invisible):
        return _structured(via, fields, keep_invisible=keep_invisible)
    said = answered(clean(read_text(reply), keep_invisible=keep_invisible))
    text = without_special_tokens(said.text)
    reading = strict(text)
    if len(reading.blocks) < blocks and len(meant(text).blocks) >= blocks:
        reading = meant(text)
    found = reading.blocks
    if reply.cut_off and (not found or not found[-1].closed):
        return Rejected(reason=CUT_OFF)
    if said.unfinished and len(found) < blocks:
        return Rejected(reason=unfinished(said))
    if not found:
        return Rejected(
            reason="The reply holds no answer with `replacements` through the tool, and no fenced"
            " code block."
        )
    codes = [block.text.removesuffix("\n") for block in found]
    spans = Spans(replacements=codes[:blocks], definitions=[_definition(c) for c in codes[blocks:]])
    return SpansAnswer(via="fence", spans=spans, explanation=reading.prose)


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


def _structured(
    via: str, fields: Mapping[str, Any], *, keep_invisible: bool
) -> SpansAnswer | Rejected:
    def code(text: str) -> str:
        return unfenced(clean(text, keep_invisible=keep_invisible))

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
            replacements=[code(text) for text in spans.replacements],
            definitions=[
                Definition(code=code(added.code), before=clean(added.before))
                for added in spans.definitions
            ],
        ),
        explanation=answered(clean(explanation)).text.strip()
        if isinstance(explanation, str)
        else "",
    )


def _definition(code: str) -> Definition:
    place = _BEFORE.match(code)
    if place is None:
        return Definition(code=code)
    return Definition(code=code[place.end() :], before=place[1])
