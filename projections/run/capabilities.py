"""What a run has learned of a model: which parameters it does not take, and how much fits."""

from __future__ import annotations

import msgspec

from events.bodies import CallParams, CapabilityLearned

__all__ = ["Known"]

_CHARS_A_TOKEN = 3
"""Source code has three to four characters a token: so many are there at most, mostly."""
_LEAST_TOKENS = 1024
"""No kernel fits into less, and no model thinks with less: a smaller room is not asked for."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """Of one model. ``max_tokens`` is the most that it puts out, ``context_tokens`` what prompt
    and reply have in all; None where it has not said so."""

    refused: frozenset[str] = frozenset()
    max_tokens: int | None = None
    context_tokens: int | None = None

    def learned(self, lesson: CapabilityLearned) -> Known:
        """What is known after ``lesson``; of two limits the lower one holds."""
        limit = lesson.limit
        if limit is None:
            refused = self.refused | {lesson.param}
            return msgspec.structs.replace(self, refused=refused)
        if lesson.param == "context":
            lower = min(limit, self.context_tokens or limit)
            return msgspec.structs.replace(self, context_tokens=lower)
        return msgspec.structs.replace(self, max_tokens=min(limit, self.max_tokens or limit))

    def fitted(self, params: CallParams, prompt_chars: int) -> CallParams:
        """``params`` for a prompt of so many characters, asking for no more than there can be.
        A budget to think with that no longer fits becomes half of that."""
        most = params.max_tokens
        if self.max_tokens is not None:
            most = min(most, self.max_tokens)
        if self.context_tokens is not None:
            room = self.context_tokens - -(-prompt_chars // _CHARS_A_TOKEN)
            most = min(most, max(room, _LEAST_TOKENS))
        if most == params.max_tokens:
            return params
        thinking = params.thinking
        if thinking is not msgspec.UNSET and thinking >= most:
            thinking = max(most // 2, _LEAST_TOKENS)
        return msgspec.structs.replace(params, max_tokens=most, thinking=thinking)
