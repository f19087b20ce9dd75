"""What the run has used up: tokens and money by role. Money is an integer of usd_micros."""

from __future__ import annotations

import msgspec

from events.bodies import (
    AgentCalled,
    AgentReplied,
    Body,
    Price,
    ReplyParsed,
    RunForked,
    RunStarted,
    Usage,
)

__all__ = ["RoleSpend", "Spend", "cost_usd_micros"]


def cost_usd_micros(usage: Usage, price: Price) -> int:
    """The cost of one call, rounded up to a whole usd_micro."""
    total = (
        usage.input_tokens * price.input_usd_micros_per_mtok
        + usage.output_tokens * price.output_usd_micros_per_mtok
        + usage.cache_read_tokens * price.cache_read_usd_micros_per_mtok
        + usage.cache_write_tokens * price.cache_write_usd_micros_per_mtok
    )
    return -(-total // 1_000_000)


class RoleSpend(msgspec.Struct):
    """Sums for one role. ``unpriced_calls`` have no price and count nothing in money;
    ``uncounted_calls`` came without a usage and count nothing at all; ``reused`` replies came
    out of a parent's log, and used nothing. ``kept_chars`` of source did not have to be repeated
    by replies that hold replacements only."""

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


class Spend:
    """A fold that owns mutable state. ``input_tokens`` counts cached ones too."""

    def __init__(self) -> None:
        self.roles: dict[str, RoleSpend] = {}
        self._prices: dict[str, Price] = {}
        self._models: dict[int, str] = {}

    def apply(self, body: Body) -> None:
        """Fold one event."""
        match body:
            case RunStarted():
                self._prices = body.prices
            case RunForked():
                self._prices = {**body.prices, **self._prices}
            case AgentCalled():
                # Priced by the configured model: providers answer under dated names.
                self._models[body.call] = body.model
            case AgentReplied():
                self._reply(body, self._models.pop(body.call, body.served_by))
            case ReplyParsed() if body.kept_chars:
                self.roles.setdefault(body.role, RoleSpend()).kept_chars += body.kept_chars

    def _reply(self, body: AgentReplied, model: str) -> None:
        role = self.roles.setdefault(body.role, RoleSpend())
        usage = body.usage
        role.calls += 1
        if body.reused is not None:
            role.reused += 1
            return
        if usage is None:
            role.uncounted_calls += 1
            role.unpriced_calls += 1
            return
        role.input_tokens += usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        role.output_tokens += usage.output_tokens
        price = self._prices.get(model)
        if price is not None:
            role.usd_micros += cost_usd_micros(usage, price)
        elif not body.canned:
            role.unpriced_calls += 1

    @property
    def total(self) -> RoleSpend:
        """The sums over all roles."""
        total = RoleSpend()
        for role in self.roles.values():
            total.calls += role.calls
            total.reused += role.reused
            total.input_tokens += role.input_tokens
            total.output_tokens += role.output_tokens
            total.usd_micros += role.usd_micros
            total.unpriced_calls += role.unpriced_calls
            total.uncounted_calls += role.uncounted_calls
            total.kept_chars += role.kept_chars
        return total
