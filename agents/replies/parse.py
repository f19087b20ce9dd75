"""From a reply to an answer that the search can use, or to a reason why not.

The structured tool answer is preferred, then the same as JSON; fenced code blocks in the
text are the fallback. What a model thought aloud before its answer is not part of it.
A syntax error in a candidate is the sandbox's to find: here only a missing ``ModelNew``
counts against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agents.clients.port import Reply
from agents.clients.structured import json_object
from agents.python_source import MODEL_NEW
from agents.replies.anchors import has_anchors, strip_anchors
from agents.replies.grounding import Rejected, ground
from agents.replies.normal_form import source_key
from agents.replies.reply_text import answered, clean, fences, outside, unfenced
from agents.replies.spans_reply import read_spans
from agents.replies.splicing import block_count, spliced

__all__ = ["Parsed", "Rejected", "parse"]

_LONGEST = 2**20
"""Characters of a text that is searched for a candidate: what no model's output limit reaches is
not worth seconds in which all else waits."""
_LONGEST_SOURCE = 2**18
"""Of a candidate: about what is judged (``gpu_sandbox.static_checks.precheck``)."""
_TOO_LONG = f"The reply is too long: answer in less than {_LONGEST_SOURCE} characters."


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A usable answer. A plan has ``advice`` and ``annotated``, the others ``source``."""

    via: str
    """``tool``, ``json`` or ``fence``."""
    advice: str | None = None
    annotated: str | None = None
    source: str | None = None
    explanation: str | None = None
    anchors: int = 0
    spliced: bool = False
    source_key: str | None = None
    kept_chars: int = 0
    """Of ``source``: those that a spliced reply did not have to repeat."""


def parse(
    role: str, reply: Reply, node_source: str, *, splice: bool = True, marked: str | None = None
) -> Parsed | Rejected:
    """Read ``reply`` as ``role``'s answer; ``node_source`` is the selected node's source.

    ``marked`` is the plan's, where replacements of its blocks are what was asked for.
    """
    if reply.stop_reason == "refusal":
        return Rejected(reason="The model declined to answer this request.")
    if marked is not None:
        return _spans(reply, marked)
    answer = _answer(role, reply)
    if isinstance(answer, Rejected):
        return answer
    if role == "plan":
        return _plan(answer, node_source, splice=splice)
    assert answer.source is not None
    if len(answer.source) > _LONGEST_SOURCE:
        return Rejected(reason=_TOO_LONG)
    source = strip_anchors(answer.source)
    if not source.endswith("\n"):
        source += "\n"
    if MODEL_NEW.search(source) is None:
        return Rejected(
            reason="The returned code defines no ModelNew: name the new architecture "
            "`ModelNew` and return the complete file."
        )
    return msgspec.structs.replace(answer, source=source, source_key=source_key(source))


def _spans(reply: Reply, marked: str) -> Parsed | Rejected:
    answer = read_spans(reply, block_count(marked))
    if isinstance(answer, Rejected):
        return answer
    if answer.spans.chars > _LONGEST_SOURCE:
        return Rejected(reason=_TOO_LONG)
    source = spliced(marked, answer.spans)
    if isinstance(source, Rejected):
        return source
    return Parsed(
        via=answer.via,
        source=source,
        explanation=answer.explanation,
        spliced=True,
        source_key=source_key(source),
        kept_chars=max(0, len(source) - answer.spans.chars),
    )


def _plan(answer: Parsed, node_source: str, *, splice: bool) -> Parsed | Rejected:
    assert answer.advice is not None
    assert answer.annotated is not None
    if not answer.advice.strip():
        return Rejected(reason="The plan holds no advice: say what to change and how.")
    grounded = ground(answer.annotated, node_source, splice=splice)
    if isinstance(grounded, Rejected):
        return grounded
    return msgspec.structs.replace(
        answer,
        annotated=grounded.annotated,
        anchors=grounded.anchors,
        spliced=grounded.spliced,
    )


def _answer(role: str, reply: Reply) -> Parsed | Rejected:
    """The answer's texts, as they came: from the tool if it can be, else from the text."""
    code, prose = ("annotated_source", "advice") if role == "plan" else ("source", "explanation")
    fields = _strings(reply.tool_input or {})
    if len(fields.get(code) or reply.text) > _LONGEST:
        return Rejected(reason=_TOO_LONG)
    for via, found in (("tool", fields), ("json", _written(reply.text))):
        if found.get(code, "").strip():
            return _parsed(role, via, unfenced(found[code]), found.get(prose, ""))
    answer = _fenced(role, reply)
    if isinstance(answer, Rejected) and reply.tool_input is not None:
        given = ", ".join(sorted(fields)) or "nothing"
        return Rejected(reason=f"The tool's answer lacks `{code}`; it holds {given}.")
    return answer


def _written(text: str) -> dict[str, str]:
    """The answer's fields where the text is, or fences, their JSON object and nothing more."""
    text = answered(text).strip()
    return _strings(json_object(unfenced(text).strip()) or {})


def _fenced(role: str, reply: Reply) -> Parsed | Rejected:
    text = answered(reply.text)
    blocks = fences(text)
    if role == "plan":
        fitting = [block for block in blocks if has_anchors(block.text)]
    else:
        fitting = [block for block in blocks if MODEL_NEW.search(block.text)]
    if reply.cut_off and (not fitting or not fitting[-1].closed):
        return Rejected(
            reason="The reply was cut off at the output limit before the code was complete: "
            "answer more briefly."
        )
    if not fitting and not blocks:
        return Rejected(
            reason="The reply holds no answer through the tool and no fenced code block."
        )
    # A later block is the more considered one.
    chosen = (fitting or blocks)[-1]
    return _parsed(role, "fence", chosen.text, outside(text))


def _parsed(role: str, via: str, code: str, prose: str) -> Parsed:
    if role == "plan":
        return Parsed(via=via, advice=prose.strip(), annotated=code)
    return Parsed(via=via, source=code, explanation=prose.strip())


def _strings(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: clean(value) for name, value in fields.items() if isinstance(value, str)}
