"""What went wrong, by class: how often, and where to look for an example."""

from __future__ import annotations

import re

import msgspec

from events.bodies import AgentFailed, AttemptAbandoned, Body, EvaluationFinished, ReplyRejected
from events.outcomes import Correct

__all__ = ["FailureClass", "Failures", "reason_class"]

_NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
_QUOTED = re.compile(r"'[^'\n]{1,80}'|\"[^\"\n]{1,80}\"|‘[^’\n]{1,80}’|`[^`\n]{1,80}`")
_CHARS = 160


class FailureClass(msgspec.Struct, kw_only=True):
    """``failure`` is an outcome's tag, ``abandoned``, or for a call ``rejected`` or its error.

    ``pattern`` is the reason with its numbers and quoted names left out, ``example`` the
    first whole one; ``nodes`` are the attempts that it happened in, the first one first.
    """

    failure: str
    pattern: str
    example: str
    count: int = 0
    nodes: list[int] = []


class Failures:
    """A fold that owns mutable state: candidates' failures, and calls' beside them."""

    def __init__(self) -> None:
        self._candidates = _Classes()
        self._calls = _Classes()

    @property
    def candidates(self) -> list[FailureClass]:
        """Attempts that ended without a correct candidate; the most frequent first."""
        return self._candidates.ordered()

    @property
    def calls(self) -> list[FailureClass]:
        """Calls without a usable reply, also where a later one had it."""
        return self._calls.ordered()

    def apply(self, body: Body) -> None:
        """Fold one event."""
        match body:
            case EvaluationFinished() if not isinstance(body.outcome, Correct):
                tag = str(body.outcome.__struct_config__.tag)
                self._candidates.add(tag, body.outcome.reason, body.attempt)
            case AttemptAbandoned():
                self._candidates.add("abandoned", body.reason, body.attempt)
            case ReplyRejected():
                self._calls.add("rejected", body.reason, body.attempt)
            case AgentFailed():
                self._calls.add(body.error, body.message, body.attempt)


class _Classes:
    def __init__(self) -> None:
        self._classes: dict[tuple[str, str], FailureClass] = {}
        self._seen: set[tuple[str, str, int]] = set()

    def add(self, failure: str, reason: str, node: int) -> None:
        key = failure, reason_class(reason)
        known = self._classes.get(key)
        if known is None:
            known = FailureClass(failure=failure, pattern=key[1], example=reason)
            self._classes[key] = known
        known.count += 1
        if (*key, node) not in self._seen:
            self._seen.add((*key, node))
            known.nodes.append(node)

    def ordered(self) -> list[FailureClass]:
        return sorted(self._classes.values(), key=lambda known: (-known.count, known.nodes[0]))


def reason_class(reason: str) -> str:
    """A reason's first line without what differs from one occurrence to the next."""
    line = reason.strip().partition("\n")[0]
    return _NUMBER.sub("#", _QUOTED.sub("‘…’", line))[:_CHARS]
