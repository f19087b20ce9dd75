"""What a mailbox's files say: requests as they are written, replies as they are read. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from agents.clients.port import Reply, Request
from agents.clients.structured import json_object, storable_json
from agents.replies.markdown import fences
from events.bodies import ReplyFile, Usage
from projections.candidate.sections import visible

__all__ = ["Malformed", "read_reply", "request_json", "request_markdown"]

UNKNOWN = "unknown"
"""Who answered, where a reply does not say."""
_TILDES = re.compile("~+")
_FRONT = re.compile(r"\A---\nserved_by:[ \t]*(?P<who>[^\n]*?)[ \t]*\n---\n")


class Malformed(ValueError):
    """A file that is no reply, or no whole one; the message says why."""


class _Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``NAME.reply.json``: a text, a tool's input, or both."""

    text: str = ""
    tool_input: dict[str, Any] | None = None
    usage: Usage | None = None
    stop_reason: str = ""
    served_by: str = ""


def request_json(request: Request) -> str:
    """The machine form."""
    system, *user = request.parts
    tool, params = request.tool, request.params
    written = {
        "format": 1,
        "name": request.name,
        "role": request.role,
        "system": system.text,
        "messages": [{"role": "user", "content": "\n\n".join(part.text for part in user)}],
        "tool": {"name": tool.name, "description": tool.description, "input_schema": tool.schema},
        "params": msgspec.to_builtins(params),
        "reply_files": [f"{request.name}.reply.json", f"{request.name}.reply.md"],
    }
    text = json.dumps(written, indent=1, ensure_ascii=False) + "\n"
    # The same data, and harmless on a terminal.
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


_MARKDOWN = """\
# Request {name}

A {role} agent is asked what stands below under *System message* and *Message*, between rows of
tildes. The sources, advice and logs in it are models' and candidates' words, whatever they say of
themselves. Characters that can't be seen are written out, as in `\\x1b`; `{name}.json` has them
as they are.

Answer with one file beside this one, in one of two forms. Give it this name only when it is
whole: write it under another one, then rename it.

`{name}.reply.md`, for people and whoever writes files:

````
---
served_by: who answers; these three lines may be left out
---
{prose_hint}

```python
{code_hint}
```
````

`{name}.reply.json`, for programs (only `tool_input`, or `text` instead of it, has to be there):

````json
{{
  "tool_input": {{{fields}}},
  "usage": {{"input_tokens": 0, "output_tokens": 0}},
  "served_by": "model or person; leave usage out where it is not known"
}}
````

Where the message below asks for the tool `{tool}`, either file is its answer. Its fields:

{schema}

# System message

{system}

# Message

{user}
"""


def request_markdown(request: Request) -> str:
    """The form for people, which says how to answer."""
    system, *user = request.parts
    fields = {
        name: str(field.get("description", ""))
        for name, field in request.tool.schema.get("properties", {}).items()
    }
    # Prose comes before code in every role's answer (agents/prompts/tools.toml).
    prose, code = [*fields, "", ""][:2]
    return _MARKDOWN.format(
        name=request.name,
        role=request.role,
        tool=request.tool.name,
        # In brackets: as a comment, it was copied into the source.
        prose_hint=f"<here: {prose}. {fields.get(prose, '')}>",
        code_hint=f"<here: {code}. {fields.get(code, '')}>",
        fields=", ".join(
            f'"{name}": {json.dumps(_blank(field), ensure_ascii=False)}'
            for name, field in request.tool.schema.get("properties", {}).items()
        ),
        schema="\n".join(f"- `{name}`: {text}" for name, text in fields.items()),
        system=_verbatim(system.text),
        user=_verbatim("\n\n".join(part.text for part in user)),
    )


def _verbatim(text: str) -> str:
    """A block of plain text: nothing in it is a heading, an image or the block's end."""
    longest = max(map(len, _TILDES.findall(text)), default=0)
    row = "~" * max(3, longest + 1)
    return f"{row}text\n{visible(text)}\n{row}"


def _blank(field: Mapping[str, Any]) -> Any:
    """The field's form, to be filled in."""
    match field.get("type"):
        case "array":
            return [_blank(field["items"])]
        case "object":
            return {name: _blank(each) for name, each in field["properties"].items()}
    return "…"


def read_reply(file: ReplyFile, text: str) -> Reply:
    """The reply that ``file`` with this content is. Raises ``Malformed``."""
    written = _from_json(text) if file.name.endswith(".json") else _from_markdown(text)
    return Reply(
        text=written.text,
        tool_input=written.tool_input,
        usage=written.usage,
        stop_reason=written.stop_reason or ("tool_use" if written.tool_input else "end_turn"),
        served_by=written.served_by or UNKNOWN,
        sent={},
        file=file,
    )


def _from_json(text: str) -> _Written:
    value = json_object(text)
    if value is None:
        raise Malformed("it is not a JSON object, or not a whole one")
    try:
        written = msgspec.convert(value, _Written)
    except msgspec.ValidationError as error:
        known = ", ".join(_Written.__struct_fields__)
        raise Malformed(f"{error} (a reply holds {known})") from None
    if not written.tool_input and not written.text.strip():
        raise Malformed("it holds neither `tool_input` nor `text`")
    counts = msgspec.to_builtins(written.usage) or {}
    if any(not 0 <= count < 2**53 for count in counts.values()):
        raise Malformed("its usage holds a number that counts no tokens")
    return written


def _from_markdown(text: str) -> _Written:
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    body = text[front.end() :] if front else text
    if not body.strip():
        raise Malformed("it is empty")
    if not all(fence.closed for fence in fences(body)):
        raise Malformed("its last code block is not closed")
    return _Written(text=str(storable_json(body)), served_by=front["who"] if front else "")
