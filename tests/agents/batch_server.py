"""The Message Batches API on a real socket: create, retrieve, results as JSONL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .messages_api import error
from .model_server import Got, ModelServer, Script, response

__all__ = ["BatchServer", "Result", "message"]

Result = Callable[[dict[str, Any]], dict[str, Any] | None]
"""What becomes of a request's params; None: the batch has no result for it."""


def message(text: str, tool: str | None = None, **answer: str) -> dict[str, Any]:
    """A result that succeeded."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    if tool is not None:
        content.append({"type": "tool_use", "id": "toolu_1", "name": tool, "input": answer})
    return {
        "type": "succeeded",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-1",
            "content": content, "stop_reason": "tool_use" if tool else "end_turn",
            "usage": {"input_tokens": 11, "output_tokens": 42, "cache_read_input_tokens": 300},
        },
    }  # fmt: skip


class BatchServer(ModelServer):
    """Ends batches when ``ended`` says so; each request of one becomes what ``result`` makes
    of it. ``refusals`` are answered first, to creations."""

    def __init__(self, result: Result) -> None:
        super().__init__([])
        self.result = result
        self.ended = False
        self.gone = False
        self.refusals: list[Script] = []
        self.batches: list[list[dict[str, Any]]] = []

    def script_for(self, got: Got) -> Script:
        method, path, _ = got.line.split(" ")
        if (method, path) == ("POST", "/v1/messages/batches"):
            if self.refusals:
                return self.refusals.pop(0)
            self.batches.append(got.body["requests"])
            return self._status(len(self.batches) - 1)
        found = re.fullmatch(r"/v1/messages/batches/msgbatch_(\d+)(/results)?", path)
        if found is None or self.gone:
            return error(404, "not_found_error", "no such batch")
        number = int(found[1])
        return self._results(number) if found[2] else self._status(number)

    def _status(self, number: int) -> Script:
        url = f"{self.url}/v1/messages/batches/msgbatch_{number}/results"
        body = {
            "id": f"msgbatch_{number}", "type": "message_batch",
            "processing_status": "ended" if self.ended else "in_progress",
            "request_counts": {
                "processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0
            },
            "created_at": "2026-11-21T00:00:00Z", "expires_at": "2026-11-22T00:00:00Z",
            "ended_at": None, "archived_at": None, "cancel_initiated_at": None,
            "results_url": url if self.ended else None,
        }  # fmt: skip
        return response(200, json.dumps(body).encode())

    def _results(self, number: int) -> Script:
        lines = []
        for item in reversed(self.batches[number]):
            result = self.result(item["params"])
            if result is not None:
                lines.append(json.dumps({"custom_id": item["custom_id"], "result": result}))
        return response(200, "\n".join([*lines, ""]).encode(), "application/x-jsonl")
