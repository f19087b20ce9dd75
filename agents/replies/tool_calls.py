"""A tool's fields, however a reply holds them: as JSON in the text, or in a model's own marks.

Servers that don't know a model's format pass its calls on as text. The formats are Hermes' and
Qwen's (``<tool_call>``), Qwen3-Coder's, GLM's, Mistral's, Llama's, DeepSeek's, Kimi's, gpt-oss' and
Anthropic's older one; what they have in common is a JSON object, or a tag for each field. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from agents.clients.structured import json_object, storable_json

__all__ = ["called_fields", "fields_of"]

_OBJECT = re.compile(r'\{\s*"\w{1,40}"\s*:')
_MAX_OBJECTS = 64
_DEEPEST = 5
_INNER = ("arguments", "parameters", "input", "args", "tool_input", "function", "answer")
_TAG = re.compile(
    r"<(?:｜DSML｜)?parameter(?:=|\s+name=)[\"']?(?P<name>\w+)[\"']?[^<>\n]*>"
    r"|<arg_key>\s*(?P<key>\w+)\s*</arg_key>\s*<arg_value>"
    r"|<(?P<field>\w+)>"
)


def fields_of(value: Any, names: Collection[str], levels: int = _DEEPEST) -> dict[str, Any]:
    """The fields that a tool's arguments hold, also where they are encoded once more, or wrapped
    in a call. Empty where none of ``names`` is found."""
    if isinstance(value, str):
        value = json_object(value)
    if not isinstance(value, Mapping) or not levels:
        return {}
    if any(name in value for name in names):
        return dict(value)
    for key, inner in value.items():
        if key in _INNER or (len(value) == 1 and isinstance(inner, Mapping)):
            found = fields_of(inner, names, levels - 1)
            if found:
                return found
    return {}


def called_fields(text: str, names: Collection[str]) -> Iterator[dict[str, Any]]:
    """The fields of each call or JSON object in ``text`` that has one of ``names``, in order."""
    for value in _objects(text):
        if found := fields_of(value, names):
            yield found
    if tagged := _tagged(text, names):
        yield tagged


def _objects(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(strict=False)
    at = 0
    for _ in range(_MAX_OBJECTS):
        opening = _OBJECT.search(text, at)
        if opening is None:
            return
        try:
            value, at = decoder.raw_decode(text, opening.start())
            yield storable_json(value)
        except (ValueError, RecursionError):
            at = opening.end()


def _tagged(text: str, names: Collection[str]) -> dict[str, str]:
    """Fields that stand between tags, as they are."""
    found: dict[str, str] = {}
    at = 0
    while tag := _TAG.search(text, at):
        at = tag.end()
        name = tag["name"] or tag["key"] or tag["field"]
        if name not in names:
            continue
        closing = f"</{name}>" if tag["field"] else "</arg_value>" if tag["key"] else "parameter>"
        end = text.find(closing, at)
        if end < 0:
            return {}
        value = text[at:end]
        if closing == "parameter>":
            value = value[: max(value.rfind("</"), 0)]
        found[name] = value.removeprefix("\n")
        at = end + len(closing)
    return found
