"""A server of the Messages API that refuses what Claude Sonnet 5.5 refuses, in the API's words."""

from __future__ import annotations

from typing import Any

from .messages_api import error
from .model_server import Got, ModelServer, Script

__all__ = ["StrictServer", "refusal"]

_SAMPLING = ("temperature", "top_p", "top_k")


def refusal(body: dict[str, Any]) -> str | None:
    """What the request is answered with status 400, one fault at a time; None: nothing."""
    if name := next((name for name in _SAMPLING if name in body), None):
        return f"`{name}` is deprecated for this model."
    kind = body.get("thinking", {}).get("type", "adaptive")
    if kind == "enabled":
        return (
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive"'
            ' and "output_config.effort" to control thinking behavior.'
        )
    if kind == "disabled":
        return '"thinking.type.disabled" is not supported for this model.'
    if body.get("tool_choice", {}).get("type") in ("tool", "any"):
        return 'tool_choice: type "tool" and "any" are not supported for this model.'
    return None


class StrictServer(ModelServer):
    """Refuses, or answers the n-th request that it takes with the n-th script."""

    def __init__(self, *scripts: Script) -> None:
        super().__init__(list(scripts))
        self.refused: list[tuple[str, str]] = []
        """Model and message of each refusal."""
        self.taken: list[dict[str, Any]] = []

    def script_for(self, got: Got) -> Script:
        message = refusal(got.body)
        if message is not None:
            self.refused.append((got.body["model"], message))
            return error(400, "invalid_request_error", message)
        self.taken.append(got.body)
        return self._scripts[min(len(self.taken), len(self._scripts)) - 1]
