"""The 1 KB event that the log's benchmarks append."""

from __future__ import annotations

from events.bodies import AgentReplied, Usage

__all__ = ["reply"]


def reply(number: int) -> AgentReplied:
    return AgentReplied(
        attempt=number, role="code", call=number, try_=1, usage=Usage(output_tokens=1),
        latency_ms=1, stop_reason="end_turn", served_by="m", sent={"note": "y" * 700},
        reply_sha256="0" * 64,
    )  # fmt: skip
