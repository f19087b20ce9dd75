"""What the run has used up: tokens and money by role, and device time. Money is an integer of
usd_micros."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import copy

import msgspec

from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    BaselineMeasured,
    Body,
    EvaluationFinished,
    Price,
    ReplyParsed,
    RunForked,
    RunStarted,
    Usage,
)

__all__ = ["RoleSpend", "Spend", "cost_usd_micros", "priced_by", "prices_words"]


def cost_usd_micros(usage: Usage, price: Price) -> int:
    """The cost of one call, rounded up to a whole usd_micro."""
    total = (
        usage.input_tokens * price.input_usd_micros_per_mtok
        + usage.output_tokens * price.output_usd_micros_per_mtok
        + usage.cache_read_tokens * price.cache_read_usd_micros_per_mtok
        + usage.cache_write_tokens * price.cache_write_usd_micros_per_mtok
    )
    return -(-total // 1_000_000)


def prices_words(models: Iterable[str], given: Collection[str], dated: str) -> str:
    """Where the prices of these models are from: the table's date, or ``configuration`` for those
    that it has ``given``."""
    models = sorted(models)
    configured = [model for model in models if model in given]
    if not configured:
        return dated
    if len(configured) == len(models):
        return "configuration"
    return f"{dated}; configuration for {', '.join(configured)}"


def priced_by(started: RunStarted) -> str:
    """The same of a run's models; empty where none of them costs anything."""
    paid = [model for model, price in started.prices.items() if any(msgspec.structs.astuple(price))]
    given = started.config.get("prices", {})
    return prices_words(paid, given, started.prices_dated) if paid else ""


class RoleSpend(msgspec.Struct):
    """Sums for one role. ``calls`` were answered; what failed tries took is in the sums as far
    as the server said it. ``unpriced_calls``, such tries among them, have no price and count
    nothing in money; ``uncounted_calls`` came without a usage and count nothing at all;
    ``reused`` replies came out of a parent's log, and used nothing. ``kept_chars`` of source did
    not have to be repeated by replies that hold replacements only."""

    calls: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd_micros: int = 0
    unpriced_calls: int = 0
    uncounted_calls: int = 0
    kept_chars: int = 0

    @property
    def saved_tokens(self) -> int:
        """Output tokens that ``kept_chars`` would have been: an estimate, at four characters a
        token. No provider counts what was not written."""
        return self.kept_chars // 4

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def counted(self) -> int:
        """Calls whose use is known and was this run's own."""
        return self.calls - self.reused - self.uncounted_calls

    def add(self, other: RoleSpend) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Spend:
    """A fold that owns mutable state. ``input_tokens`` counts cached ones too."""

    def __init__(self) -> None:
        self.roles: dict[str, RoleSpend] = {}
        self.device_ms = 0
        """For which devices were leased."""
        self.evaluations = 0
        """Those that a device was leased for, and their part of it."""
        self.evaluations_ms = 0
        self._total = RoleSpend()
        self._prices: dict[str, Price] = {}
        self._models: dict[int, str] = {}

    def apply(self, body: Body) -> RoleSpend | None:
        """Fold one event; returns what it added, None for an event that adds nothing."""
        match body:
            case RunStarted():
                self._prices = body.prices
            case RunForked():
                self._prices = {**body.prices, **self._prices}
            case AgentCalled():
                # Priced by the configured model: providers answer under dated names.
                self._models[body.call] = body.model
            case AgentReplied():
                spent = self._spent(body, self._models.pop(body.call, body.served_by))
                return self._add(body.role, spent)
            case AgentFailed(usage=Usage() as usage):
                return self._add(body.role, self._used(usage, self._models.get(body.call, "")))
            case BaselineMeasured(cached=False):
                self.device_ms += _leased_ms(body)
            case EvaluationFinished() if "lease" in body.timings_s:
                self.device_ms += _leased_ms(body)
                self.evaluations_ms += _leased_ms(body)
                self.evaluations += 1
            case ReplyParsed() if body.kept_chars:
                self._add(body.role, RoleSpend(kept_chars=body.kept_chars))
        return None

    def _add(self, role: str, spent: RoleSpend) -> RoleSpend:
        self.roles.setdefault(role, RoleSpend()).add(spent)
        self._total.add(spent)
        return spent

    def _spent(self, body: AgentReplied, model: str) -> RoleSpend:
        if body.reused is not None:
            return RoleSpend(calls=1, reused=1)
        if body.usage is None:
            return RoleSpend(calls=1, uncounted_calls=1, unpriced_calls=1)
        spent = self._used(body.usage, model)
        spent.calls = 1
        spent.unpriced_calls *= not body.canned
        return spent

    def _used(self, usage: Usage, model: str) -> RoleSpend:
        price = self._prices.get(model)
        return RoleSpend(
            input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            usd_micros=0 if price is None else cost_usd_micros(usage, price),
            unpriced_calls=int(price is None),
        )

    @property
    def total(self) -> RoleSpend:
        """The sums over all roles, as they are now."""
        return copy(self._total)


def _leased_ms(body: BaselineMeasured | EvaluationFinished) -> int:
    return round(body.timings_s.get("lease", 0.0) * 1000)
