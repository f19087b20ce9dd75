"""How long the device is kept busy, so that launches are hidden behind that."""

from __future__ import annotations

from gpu_sandbox.child.baseline import long_cover_us


def test_a_cover_is_longer_than_what_it_hides() -> None:
    assert long_cover_us(60, [90_000, 100_000, 400_000]) == 150


def test_what_is_flushed_before_is_a_part_of_it() -> None:
    assert long_cover_us(60, [100_000] * 3, 6000 * 20_000) == 130
    assert long_cover_us(60, [50_000] * 3, 6000 * 20_000) == 60
    assert long_cover_us(0, [50_000] * 3, 6000 * 20_000) == 0


def test_short_launches_need_no_more_than_the_protocol_says() -> None:
    assert long_cover_us(60, [5000, 6000, 7000]) == 60


def test_a_protocol_that_hides_nothing_goes_on_to_hide_nothing() -> None:
    assert long_cover_us(0, [500_000] * 3) == 0


def test_a_cover_has_an_end() -> None:
    assert long_cover_us(60, [10_000_000] * 3) == 600
    assert long_cover_us(1000, [10_000_000] * 3) == 1000
