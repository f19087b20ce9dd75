"""The tool that a role answers with, as its template has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.clients.port import Tool
from agents.templates import Templates

__all__ = ["answer_tool"]


def answer_tool(templates: Templates, name: str) -> Tool:
    description, fields = templates.tool(name)
    return Tool(name=name, description=description, schema=_object(fields))


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object in which every field is required."""
    return {
        "type": "object",
        "properties": {field: _field(told) for field, told in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def _field(told: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(told, str):
        return {"type": "string", "description": told}
    each = told["each"]
    items = _field(each) if isinstance(each, str) else _object(each)
    return {"type": "array", "description": told["description"], "items": items}
