"""How many calls to send a provider at once, and how fast, as it lets us: a pure controller.

Calls in flight are bounded by a window as TCP's congestion control has it (Jacobson 1988;
RFC 5681): slow start, then additive increase, and a multiplicative decrease when the
provider says that it is too much (429, 529). Tokens a minute are bounded by a bucket whose
rate is found the same way. What the provider says of itself (``retry-after``, how much is
left until when) goes before what is found. Seconds are a monotonic clock's, given by the
caller.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime

import msgspec

__all__ = ["Allowance", "Pace", "Permit", "allowance_of"]

_FIRST_WINDOW = 2.0
_MOST = 1024.0
_BURST_S = 10.0
"""A bucket holds what comes in so many seconds."""
_INSTANT_S = 0.1
_LEAST_RATE = 1_000.0
"""Tokens a minute that the rate does not fall below."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider says is left; None where it does not say. ``*_reset_s``: from now."""

    requests_left: int | None = None
    requests_reset_s: float | None = None
    tokens_left: int | None = None
    tokens_reset_s: float | None = None


class Permit(msgspec.Struct, frozen=True):
    """A call that was let go: when, in which round of the window, for how many tokens."""

    began_s: float
    round: int
    tokens: int


class Pace:
    """One provider's model. ``calls`` and ``tokens_a_minute`` are fixed ceilings, if any."""

    def __init__(self, *, calls: int | None = None, tokens_a_minute: int | None = None) -> None:
        self._most_calls = self._threshold = _MOST
        self.window = _FIRST_WINDOW
        self._most_rate = self.rate = math.inf
        """Tokens a minute; infinite until there is a reason for a limit."""
        self.in_flight = 0
        self._round = 0
        self._closed_until_s = -math.inf
        self._level = math.inf
        self._level_s: float | None = None
        self._sent: list[tuple[float, int]] = []
        """When and how many tokens were sent in the last minute, to know what was too much."""
        self.limit(calls=calls, tokens_a_minute=tokens_a_minute)

    def limit(self, *, calls: int | None, tokens_a_minute: int | None) -> None:
        """Never exceed these ceilings from now on; of several, the lowest goes."""
        self._most_calls = min(self._most_calls, float(calls or _MOST))
        self._most_rate = min(self._most_rate, float(tokens_a_minute or math.inf))
        self.window = min(self.window, self._most_calls)
        self._threshold = min(self._threshold, self._most_calls)
        self.rate = min(self.rate, self._most_rate)
        self._level = min(self._level, self._capacity())

    def wait_s(self, now_s: float) -> float:
        """0: a call may go. Else how long until it is worth asking again, infinite if only the
        end of another call can change that."""
        if self.in_flight >= math.floor(self.window):
            return math.inf
        closed = self._closed_until_s - now_s
        self._fill(now_s)
        # A call may overdraw the bucket: what it takes is known only afterwards.
        short = 0.0 if self._level > 0 else (1 - self._level) / (self.rate / 60)
        return max(0.0, closed, short)

    def begin(self, now_s: float, tokens: int) -> Permit:
        """Count a call in that is expected to take so many tokens."""
        self._fill(now_s)
        self.in_flight += 1
        self._level -= tokens
        self._sent = [entry for entry in self._sent if entry[0] > now_s - 60]
        self._sent.append((now_s, tokens))
        return Permit(now_s, self._round, tokens)

    def replied(self, permit: Permit, now_s: float, *, tokens: int | None) -> None:
        """It was answered, and took so many tokens, if that is known."""
        self._ended(permit, tokens)
        if permit.round == self._round:
            # One more for each reply doubles the window in a round trip; past the threshold
            # one more for each window's worth of them.
            step = 1.0 if self.window < self._threshold else 1.0 / self.window
            self.window = min(self.window + step, self._most_calls)
            if math.isfinite(self.rate):
                self.rate = min(self.rate * (1 + 0.1 / self.window), self._most_rate)

    def refused(self, permit: Permit, now_s: float, *, retry_after_s: float | None) -> None:
        """Too much, said the provider: half as much, once for all that were let go before."""
        self._ended(permit, 0)
        if retry_after_s is not None:
            self._closed_until_s = max(self._closed_until_s, now_s + retry_after_s)
        if permit.round != self._round:
            return
        self._round += 1
        self._threshold = max(1.0, self.window / 2)
        self.window = self._threshold
        self.rate = min(max(self._sent_rate(now_s) / 2, _LEAST_RATE), self._most_rate)
        self._level = min(self._level, self._capacity())

    def failed(self, permit: Permit) -> None:
        """It ended for a reason that says nothing about the pace."""
        self._ended(permit, None)

    def told(self, allowance: Allowance, now_s: float) -> None:
        """What the provider says is left."""
        for left, reset_s in (
            (allowance.requests_left, allowance.requests_reset_s),
            (allowance.tokens_left, allowance.tokens_reset_s),
        ):
            if left is not None and left <= 0 and reset_s is not None:
                self._closed_until_s = max(self._closed_until_s, now_s + reset_s)

    def _sent_rate(self, now_s: float) -> float:
        """Tokens a minute that were sent until now, as far as the limit let them."""
        sent = [(at_s, tokens) for at_s, tokens in self._sent if at_s > now_s - 60]
        since_s = min((at_s for at_s, _ in sent), default=now_s)
        tokens = sum(tokens for _, tokens in sent)
        return min(self.rate, tokens * 60 / max(now_s - since_s, _INSTANT_S))

    def _ended(self, permit: Permit, tokens: int | None) -> None:
        self.in_flight -= 1
        if tokens is not None:
            self._level = min(self._level + permit.tokens - tokens, self._capacity())

    def _fill(self, now_s: float) -> None:
        since_s = 0.0 if self._level_s is None else max(0.0, now_s - self._level_s)
        self._level_s = now_s
        if math.isinf(self.rate):
            self._level = math.inf
        else:
            self._level = min(self._level + since_s * self.rate / 60, self._capacity())

    def _capacity(self) -> float:
        return self.rate * _BURST_S / 60


_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def allowance_of(headers: Mapping[str, str], now_epoch_s: float) -> Allowance | None:
    """What a server says is left, if it does. Out of ``anthropic-ratelimit-*`` (resets are
    times) or ``x-ratelimit-*`` (resets are durations such as ``6m0s``). What can't be read is
    not there."""
    found: dict[str, float | None] = {}
    for what in ("requests", "tokens"):
        anthropic, openai = f"anthropic-ratelimit-{what}", "x-ratelimit"
        found[f"{what}_left"] = _count(
            headers.get(f"{anthropic}-remaining", headers.get(f"{openai}-remaining-{what}", ""))
        )
        at, after = headers.get(f"{anthropic}-reset"), headers.get(f"{openai}-reset-{what}")
        found[f"{what}_reset_s"] = (
            _until(at, now_epoch_s) if at is not None else _duration(after or "")
        )
    if all(value is None for value in found.values()):
        return None
    return msgspec.convert(found, Allowance)


def _count(text: str) -> int | None:
    return int(text) if text.strip().isdigit() and len(text) < 16 else None


def _until(text: str, now_epoch_s: float) -> float | None:
    try:
        return max(0.0, datetime.fromisoformat(text).timestamp() - now_epoch_s)
    except (ValueError, OverflowError):
        return None


def _duration(text: str) -> float | None:
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not parts or "".join(a + b for a, b in parts) != text.strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
