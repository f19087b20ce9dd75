"""The answers that a reply may hold, the likeliest first: their texts, as they came. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec

from agents.clients.port import Reply
from agents.replies.anchors import has_anchors
from agents.replies.candidate_names import defines_model_new
from agents.replies.grounding import Rejected
from agents.replies.markdown import Reading, flush_left, meant, strict
from agents.replies.plain_text import clean, without_special_tokens
from agents.replies.thoughts import Answered, answered
from agents.replies.tool_calls import called_fields, fields_of

__all__ = ["CUT_OFF", "Answer", "answers", "field_texts", "given_fields", "read_text"]
__all__ += ["unfinished"]

CUT_OFF = (
    "The reply was cut off at the output limit before the code was complete: answer more briefly."
)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """``code`` as it was returned, with the prose around it; ``beside`` are other blocks.
    ``closed`` is false of a block that nothing ended but the text."""

    via: str
    code: str
    prose: str
    beside: tuple[str, ...] = ()
    closed: bool = True


def answers(role: str, reply: Reply, *, keep_invisible: bool) -> Iterator[Answer | Rejected]:
    """At least one."""
    code, prose = ("annotated_source", "advice") if role == "plan" else ("source", "explanation")
    fits = cache(has_anchors if role == "plan" else defines_model_new)

    def cleaned(text: str) -> str:
        return clean(text, keep_invisible=keep_invisible)

    for via, fields in given_fields(reply, (code,), keep_invisible=keep_invisible):
        written = fields[code]
        if not isinstance(written, str) or not written.strip():
            continue
        said = fields.get(prose)
        around = answered(cleaned(said)).text.strip() if isinstance(said, str) else ""
        if via == "json" and not fits(cleaned(written)) and not _is_whole(reply.text):
            continue  # an example, or a dictionary in the code
        for text, within in field_texts(cleaned(written), fits, keep_indent=role == "plan"):
            yield Answer(via=via, code=text, prose=around or within)
        return
    yield from _of_text(reply, cleaned, fits, code)


def given_fields(
    reply: Reply, names: tuple[str, ...], *, keep_invisible: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(``tool`` or ``json``, fields) of what has one of ``names``: the tool's, those of calls that
    no client took for the tool's, and those that the text holds, the last one first."""
    if found := fields_of(reply.tool_input, names):
        yield "tool", found
    for call in reply.others:
        if found := fields_of(call.get("arguments"), names):
            yield "tool", found
    text = clean(read_text(reply), keep_invisible=keep_invisible)
    if not text.lstrip().startswith("{"):
        text = answered(text).text
    for fields in reversed(list(called_fields(text, names))):
        yield "json", fields


def read_text(reply: Reply) -> str:
    """The text that is read; the thoughts where there is nothing else. A server that was told of
    thoughts where there are none takes the whole answer for one."""
    if reply.text.strip() or reply.tool_input or reply.others or reply.cut_off:
        return reply.text
    return reply.thoughts


def field_texts(
    text: str, fits: Callable[[str], bool], *, keep_indent: bool
) -> Iterator[tuple[str, str]]:
    """A field's code, and the prose that was put around it: as it is, else out of thoughts, a fence
    or one more encoding. Code that is part of a file keeps its indentation."""

    def code(found: str) -> str:
        return found if keep_indent else flush_left(found)

    yield code(text), ""
    if "\n" not in text.strip() and "\\n" in text:
        decoded = _decoded(text.strip())
        if decoded is not None:
            yield decoded, ""
    rest = answered(text).text
    if rest != text:
        yield code(rest.lstrip("\n")), ""
    if "```" in rest or "~~~" in rest:
        for reading in (strict(rest), meant(rest)):
            for block in reversed(reading.blocks):
                if fits(block.text):
                    yield code(block.text), reading.prose
                    break


def _decoded(text: str) -> str | None:
    quoted = text if text.startswith('"') else f'"{text}"'
    try:
        value = json.loads(quoted)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _is_whole(text: str) -> bool:
    """Whether a text is a JSON object, or fences one, and nothing else."""
    text = answered(clean(text)).text.strip()
    return text.startswith(("{", "```", "~~~")) and text.rstrip("`~\n ").endswith("}")


def _of_text(
    reply: Reply, cleaned: Callable[[str], str], fits: Callable[[str], bool], code: str
) -> Iterator[Answer | Rejected]:
    """The text's fenced code, by each reading in which a block may be the candidate."""
    said = answered(cleaned(read_text(reply)))
    text = without_special_tokens(said.text)
    readings = [strict(text), meant(text)]
    fitting = [each for each in readings if any(fits(block.text) for block in each.blocks)]
    for reading in fitting or readings[:1]:
        yield _fenced(reading, reply, fits, said, code)


def _fenced(
    reading: Reading, reply: Reply, fits: Callable[[str], bool], said: Answered, code: str
) -> Answer | Rejected:
    fitting = [block for block in reading.blocks if fits(block.text)]
    if reply.cut_off and (not fitting or not fitting[-1].closed):
        return Rejected(reason=CUT_OFF)
    if not fitting and said.unfinished:
        return Rejected(reason=unfinished(said))
    if not fitting and (lacking := _lacking(reply, code)):
        return Rejected(reason=lacking)
    if not reading.blocks:
        return Rejected(
            reason="The reply holds no answer through the tool and no fenced code block."
        )
    # A later block is the more considered one.
    chosen = (fitting or reading.blocks)[-1]
    beside = tuple(block.text for block in reading.blocks if block is not chosen)
    text = chosen.text if code == "annotated_source" else flush_left(chosen.text)
    return Answer(via="fence", code=text, prose=reading.prose, beside=beside, closed=chosen.closed)


def unfinished(said: Answered) -> str:
    """What to tell a model whose reply ended while it was thinking."""
    return (
        f"The reply ends within its thoughts (`{said.mark}` is never closed): think less, and give"
        " the answer."
    )


def _lacking(reply: Reply, code: str) -> str:
    """What is wrong with the tool's answer; empty where there is none."""
    if reply.tool_input is not None:
        texts = (name for name, value in reply.tool_input.items() if isinstance(value, str))
        given = ", ".join(sorted(texts)) or "nothing"
        return f"The tool's answer lacks `{code}`; it holds {given}."
    if reply.others:
        return f"The tool's arguments are no JSON object with `{code}`."
    if not reply.text.strip() and reply.thoughts:
        return "The reply holds thoughts only: give the answer behind them."
    return ""
