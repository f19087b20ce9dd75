"""The pace of calls, as pure code: whatever a provider does, some laws hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.clients.pace import Allowance, Pace, Permit, allowance_of
from tests.thorough import examples

events = st.lists(
    st.tuples(
        st.sampled_from(["replied", "replied", "replied", "refused", "failed", "told"]),
        st.floats(0, 5),
        st.integers(0, 5_000),
        st.sampled_from([None, 0.0, 0.5, 30.0]),
    ),
    max_size=60,
)


@given(events, st.sampled_from([None, 1, 3, 64]), st.sampled_from([None, 2_000, 100_000]))
@settings(max_examples=examples(80), deadline=None)
def test_the_laws_of_a_pace(
    happened: list[tuple[str, float, int, float | None]], calls: int | None, rate: int | None
) -> None:
    pace, now_s = Pace(calls=calls, tokens_a_minute=rate), 0.0
    flying: list[Permit] = []
    sent: list[tuple[float, int]] = []
    closed_s = 0.0
    for what, passed_s, tokens, after_s in happened:
        now_s += passed_s
        while pace.wait_s(now_s) == 0:
            assert now_s >= closed_s, "nobody goes before a retry-after is over"
            flying.append(pace.begin(now_s, tokens))
            sent.append((now_s, tokens))
            assert pace.in_flight <= pace.window
        assert len(flying) == pace.in_flight
        assert 1 <= pace.window <= (calls or 1024)
        assert pace.rate <= (rate or math.inf)
        if not flying:
            assert math.isfinite(pace.wait_s(now_s)), "with nobody out there, time alone is enough"
        elif what == "told":
            pace.told(Allowance(tokens_left=0, tokens_reset_s=after_s), now_s)
            closed_s = max(closed_s, now_s + (after_s or 0))
        else:
            permit, before = flying.pop(0), pace.window
            if what == "replied":
                pace.replied(permit, now_s, tokens=permit.tokens)
                assert before <= pace.window <= before + 1
            elif what == "refused":
                pace.refused(permit, now_s, retry_after_s=after_s)
                closed_s = max(closed_s, now_s + (after_s or 0))
                assert pace.window in (before, max(1, before / 2))
            else:
                pace.failed(permit)
                assert pace.window == before
        if rate is not None and what != "refused":
            # A minute's tokens, the bucket's burst, and what one call may overdraw it by.
            minute = sum(t for at_s, t in sent if at_s > now_s - 60)
            refunded = sum(1 for w, *_ in happened if w == "refused") * 5_000
            assert minute <= rate + rate / 6 + 5_000 + refunded


def test_it_starts_slowly_and_backs_off_once_for_all_that_were_in_flight() -> None:
    pace = Pace()
    for _ in range(4):
        permits = [pace.begin(0.0, 0) for _ in range(math.floor(pace.window))]
        for permit in permits:
            pace.replied(permit, 0.0, tokens=0)
    assert pace.window == 32
    permits = [pace.begin(1.0, 100) for _ in range(32)]
    for permit in permits:
        pace.refused(permit, 1.0, retry_after_s=None)
    assert pace.window == 16, "one overload is one lesson"
    for permit in [pace.begin(100.0, 0) for _ in range(16)]:
        pace.replied(permit, 100.0, tokens=0)
    assert 16.9 < pace.window < 17, "from there on by one a round"


@pytest.mark.parametrize(
    ("headers", "allowance"),
    [
        ({}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "1970-01-01T00:00:30Z",
                "anthropic-ratelimit-tokens-remaining": "41000",
                "anthropic-ratelimit-tokens-reset": "never",
            },
            Allowance(requests_left=0, requests_reset_s=20.0, tokens_left=41000),
        ),
        (
            {"x-ratelimit-remaining-tokens": "12", "x-ratelimit-reset-tokens": "6m0.5s"},
            Allowance(tokens_left=12, tokens_reset_s=360.5),
        ),
        (
            {"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "soon"},
            None,
        ),
    ],
)
def test_what_servers_say_of_their_limits(
    headers: dict[str, str], allowance: Allowance | None
) -> None:
    assert allowance_of(headers, 10.0) == allowance


def test_the_lowest_of_several_ceilings_goes() -> None:
    pace = Pace(calls=8, tokens_a_minute=60_000)
    pace.limit(calls=1, tokens_a_minute=None)
    pace.limit(calls=4, tokens_a_minute=6_000)
    pace.begin(0.0, 1_000)
    assert math.isinf(pace.wait_s(0.0)), "one is in flight already"
    pace.replied(Permit(0.0, 0, 1_000), 0.0, tokens=1_100)
    assert pace.window == 1
    # Ten seconds' worth of 6,000 a minute is 1,000; it was overdrawn by 100, and needs 1 more.
    assert pace.wait_s(0.0) == pytest.approx(1.01)
