"""How long the device is kept busy, so that the host's work is hidden behind that."""

from __future__ import annotations

from gpu_sandbox.verifier.timing.launch_cover import HostTime, cover_us, host_time

FLUSHED = 6000 * 20_000
"""Bytes that take 20 us."""


def test_a_cover_is_longer_than_what_it_hides() -> None:
    assert cover_us(60, HostTime(100_000, 100_000, 5_000)) == 150


def test_it_is_as_long_as_a_turn_of_the_host_takes_beyond_the_devices() -> None:
    assert cover_us(60, HostTime(50_000, 300_000, 5_000)) == 370
    assert cover_us(60, HostTime(50_000, 300_000, 400_000)) == 75


def test_what_is_flushed_before_is_a_part_of_it() -> None:
    assert cover_us(60, HostTime(100_000, 0, 0), FLUSHED) == 130
    assert cover_us(60, HostTime(50_000, 0, 0), FLUSHED) == 60
    assert cover_us(0, HostTime(50_000, 0, 0), FLUSHED) == 0


def test_short_launches_need_no_more_than_the_protocol_says() -> None:
    assert cover_us(60, HostTime(6000, 20_000, 3000)) == 60


def test_a_protocol_that_hides_nothing_goes_on_to_hide_nothing() -> None:
    assert cover_us(0, HostTime(500_000, 600_000, 0)) == 0


def test_a_cover_has_an_end() -> None:
    assert cover_us(60, HostTime(10_000_000, 10_000_000, 0)) == 2000
    assert cover_us(3000, HostTime(10_000_000, 10_000_000, 0)) == 3000


def test_it_hides_whichever_side_takes_longer() -> None:
    both = host_time([HostTime(90_000, 200_000, 80_000), HostTime(30_000, 300_000, 40_000)])
    assert both == HostTime(90_000, 300_000, 40_000)
