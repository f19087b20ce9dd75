"""The price table."""

from __future__ import annotations

import datetime

from agents.prices import FREE, dated, price_of, prices


def test_the_papers_model_is_priced() -> None:
    price = price_of("claude-sonnet-4-20250514")
    assert price is not None
    assert price.input_usd_micros_per_mtok == 3_000_000
    assert price.output_usd_micros_per_mtok == 15_000_000
    assert price.cache_read_usd_micros_per_mtok == 300_000
    assert price.cache_write_usd_micros_per_mtok == 3_750_000
    assert price_of("anthropic:claude-sonnet-4-20250514") == price


def test_another_model_is_not_guessed() -> None:
    for name in ("claude-opus-9", "claude-sonnet-4-9", "claude-opus-4-8-preview", "", "gpt"):
        assert price_of(name) is None
    assert price_of("claude-opus-4-20250514") != price_of("claude-opus-4-5-20251101")


def test_a_playbook_is_free() -> None:
    assert price_of("playbook:demo.toml") == FREE


def test_the_table_holds_together() -> None:
    datetime.date.fromisoformat(dated())
    for name, price in prices().items():
        assert name.startswith("claude-")
        assert price.cache_write_usd_micros_per_mtok * 4 == price.input_usd_micros_per_mtok * 5
        assert price.cache_read_usd_micros_per_mtok * 10 <= price.input_usd_micros_per_mtok
        assert price.input_usd_micros_per_mtok * 5 == price.output_usd_micros_per_mtok
