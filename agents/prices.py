"""What models cost: a dated table and what the configuration says, which goes before it. A run
freezes the prices of its models into its first event."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib import resources

import msgspec

from events.bodies import Price

__all__ = ["FREE", "dated", "price_of", "prices", "undated"]

FREE = Price(
    input_usd_micros_per_mtok=0,
    output_usd_micros_per_mtok=0,
    cache_read_usd_micros_per_mtok=0,
    cache_write_usd_micros_per_mtok=0,
)
"""What nobody is asked for costs."""

_DATE = re.compile(r"-(\d{8}|latest)$")


def prices() -> dict[str, Price]:
    """All known prices by model name."""
    return dict(_table()[1])


def dated() -> str:
    """The day, as YYYY-MM-DD, on which the table was last checked."""
    return _table()[0]


def price_of(model: str, given: Mapping[str, Price] | None = None) -> Price | None:
    """The price of ``model``, with or without a client's prefix; None if it is unknown.

    ``given`` are the configuration's, by ``client:model``. The table is Anthropic's own: what
    another server takes for the same model is not known.

    A date behind the name is looked past. A longer name is another model: nothing is
    guessed for ``claude-opus-9`` or ``claude-opus-5-5-preview``.
    """
    if given and model in given:
        return given[model]
    client, _, name = model.partition(":")
    if client == "anthropic-batch":
        return _halved(price_of(f"anthropic:{name}"))
    if client in ("playbook", "recorded"):
        return FREE
    if client == "openai":
        return None
    if not name:
        name = model
    table = _table()[1]
    return table.get(name) or table.get(undated(name))


def undated(model: str) -> str:
    """The model's name without the date of its version, such as ``-20250514`` or ``-latest``."""
    return _DATE.sub("", model)


def _halved(price: Price | None) -> Price | None:
    """What batches cost: half of every price; a millionth of a dollar is not halved."""
    if price is None:
        return None
    return Price(
        **{name: -(-micros // 2) for name, micros in msgspec.structs.asdict(price).items()}
    )


@cache
def _table() -> tuple[str, dict[str, Price]]:
    text = resources.files("agents").joinpath("prices.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    return data["dated"], {name: _price(entry) for name, entry in data["usd_per_mtok"].items()}


def _price(entry: dict[str, str]) -> Price:
    micros = {name: int(Decimal(value) * 1_000_000) for name, value in entry.items()}
    return Price(
        input_usd_micros_per_mtok=micros["input"],
        output_usd_micros_per_mtok=micros["output"],
        cache_read_usd_micros_per_mtok=micros["cache_read"],
        cache_write_usd_micros_per_mtok=micros["cache_write"],
    )
