"""From a reply to an answer that the search can use, or to a reason why not.

One reader for all clients and roles. The tool's fields are preferred, then the same written in the
text as JSON or as a call; fenced code blocks in the text are the fallback. Thoughts are no part of
an answer. Where the model can be asked again, code that is no Python is a reason to; where it
can't, the code is judged as it is.
"""

from __future__ import annotations

import msgspec

from agents.clients.port import Reply
from agents.python_source import syntax_error
from agents.replies.anchors import strip_anchors
from agents.replies.answers import Answer, answers, read_text
from agents.replies.candidate_names import defines_model_new, missing_halves
from agents.replies.grounding import Rejected, ground
from agents.replies.normal_form import source_key
from agents.replies.plain_text import invisible_in
from agents.replies.spans_reply import read_spans
from agents.replies.splicing import block_count, spliced
from agents.replies.tool_calls import fields_of

__all__ = ["Parsed", "Rejected", "parse"]

_MAX_REPLY = 2**20
"""Characters of a text that is searched for a candidate: what no model's output limit reaches is
not worth seconds in which all else waits."""
_MAX_SOURCE = 2**18
"""Of a candidate: about what is judged (``gpu_sandbox.static_checks.precheck``)."""
_TOO_LONG = f"The reply is too long: answer in less than {_MAX_SOURCE} characters."


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
    role: str,
    reply: Reply,
    node_source: str,
    *,
    splice: bool = True,
    marked: str | None = None,
    is_last: bool = False,
) -> Parsed | Rejected:
    """Read ``reply`` as ``role``'s answer; ``node_source`` is the selected node's source.

    ``marked`` is the plan's, where replacements of its blocks are what was asked for.
    ``is_last``: the model is not asked again.
    """
    if reply.stop_reason == "refusal":
        return Rejected(reason="The model declined to answer this request.")
    code = "annotated_source" if role == "plan" else "source"
    if _read_chars(reply, code if marked is None else "replacements") > _MAX_REPLY:
        return Rejected(reason=_TOO_LONG)
    if marked is not None:
        return _spans(reply, marked)
    problem: Rejected | None = None
    as_it_is: Parsed | None = None
    for answer in answers(role, reply, keep_invisible=invisible_in(node_source)):
        read: Parsed | Rejected
        if isinstance(answer, Rejected):
            read = answer
        elif role == "plan":
            read = _plan(answer, node_source, splice=splice)
        else:
            read = _source(answer)
            if is_last and isinstance(read, NotPython):
                as_it_is = as_it_is or _parsed(answer, _file(answer.code))
        if isinstance(read, Parsed):
            return read
        problem = problem or read
    assert problem is not None
    return as_it_is or problem


def _read_chars(reply: Reply, name: str) -> int:
    """How long the longest text is that is read: prose beside a tool's answer is not."""
    for given in (reply.tool_input, *(call.get("arguments") for call in reply.others)):
        fields = fields_of(given, (name,))
        if fields and str(fields[name]).strip():
            return max(len(value) for value in map(str, fields.values()))
    return len(read_text(reply))


class NotPython(Rejected, frozen=True, kw_only=True):
    """Code that defines ModelNew and does not parse."""


def _file(code: str) -> str:
    source = strip_anchors(code)
    return source if source.endswith("\n") else source + "\n"


def _source(answer: Answer) -> Parsed | Rejected:
    if len(answer.code) > _MAX_SOURCE:
        return Rejected(reason=_TOO_LONG)
    source = _file(answer.code)
    if not defines_model_new(source):
        return Rejected(
            reason="The returned code defines no ModelNew: name the new architecture "
            "`ModelNew` and return the complete file."
        )
    problem = syntax_error(source)
    if problem is not None:
        todo = (
            "return the complete file, in one block that holds nothing but code."
            if answer.closed
            else "its block is never closed. Put ``` on a line of its own behind the code."
        )
        return NotPython(reason=f"The returned code is not valid Python ({problem}): {todo}")
    if halves := missing_halves(source, answer.beside):
        return Rejected(
            reason=f"The block that defines ModelNew uses `{halves[0]}`, which only another block"
            " defines: return the complete file in one block."
        )
    return _parsed(answer, source)


def _parsed(answer: Answer, source: str) -> Parsed:
    return Parsed(
        via=answer.via,
        source=source,
        explanation=answer.prose,
        source_key=source_key(source),
    )


def _spans(reply: Reply, marked: str) -> Parsed | Rejected:
    answer = read_spans(reply, block_count(marked), keep_invisible=invisible_in(marked))
    if isinstance(answer, Rejected):
        return answer
    if answer.spans.chars > _MAX_SOURCE:
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


def _plan(answer: Answer, node_source: str, *, splice: bool) -> Parsed | Rejected:
    if not answer.prose.strip():
        return Rejected(reason="The plan holds no advice: say what to change and how.")
    grounded = ground(answer.code, node_source, splice=splice)
    if isinstance(grounded, Rejected):
        return grounded
    return Parsed(
        via=answer.via,
        advice=answer.prose,
        annotated=grounded.annotated,
        anchors=grounded.anchors,
        spliced=grounded.spliced,
    )
