"""Who answers the mailbox of a recorded run: canned replies, as in the playbooks here."""

from __future__ import annotations

import json
import os
from pathlib import Path

__all__ = ["answer"]

SMALL = Path(__file__).parents[1] / "cli" / "small"
_STEPS = "        y = x * 2\n        y = y + 1\n"
_BEGIN, _END = (f"        # <<<IMPROVE {word}>>>\n" for word in ("BEGIN", "END"))
_PLAN = f"{_BEGIN}        # one expression\n{_STEPS}{_END}"
_LONG_AGO = 1_700_000_000
"""A file of then is not being written any more."""


def answer(box: Path, turn: int) -> None:
    """At the first turn, half a reply to the oldest request; then whole ones, to all."""
    open_requests = sorted(
        path
        for path in box.glob("*.json")
        if not path.name.endswith(".reply.json") and not path.with_suffix(".reply.md").exists()
    )
    for number, request in enumerate(open_requests):
        asked = json.loads(request.read_text())
        given = _PLAN
        if asked["role"] != "plan":
            kernel = {"code": ("fused", "wrong")[number % 2], "debug": "repaired"}[asked["role"]]
            given = (SMALL / f"{kernel}.py").read_text()
        reply = request.with_suffix(".reply.md" if number % 2 else ".reply.json")
        text = f"---\nserved_by: canned\n---\nFold the steps.\n\n```python\n{given}```\n"
        if reply.suffix == ".json":
            prose, code = asked["tool"]["input_schema"]["properties"]
            tool_input = {prose: "Fold the steps.", code: given}
            text = json.dumps({"tool_input": tool_input, "served_by": "canned"})
        reply.write_text(text if turn else text[: len(text) // 2])
        os.utime(reply, (_LONG_AGO, _LONG_AGO))
        if not turn:
            break
