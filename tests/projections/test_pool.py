"""What a run's verdicts say of how busy its sandbox was. Pure."""

from __future__ import annotations

import pytest

from engine.cli.views.run_status import status_lines
from events.bodies import EvaluationFinished
from events.envelope import Event
from events.outcomes import Crashed, PoolUsage
from projections.run.overview import overview_of
from projections.run.pool import Queue


def finished(
    number: int, *, epoch: int = 1, queue_s: float = 0.0, usage: PoolUsage | None = None,
    **timings_s: float,
) -> Event:  # fmt: skip
    body = EvaluationFinished(
        attempt=number, outcome=Crashed(reason="no"), protocol="strict", timings_s=timings_s,
        queue_s=queue_s, device="cpu", isolation=[], usage=usage,
    )  # fmt: skip
    return Event(
        seq=number, run_id=1, run_seq=number, epoch=epoch, kind="in", ts_us=number * 36_000_000,
        body=body, hash=b"",
    )  # fmt: skip


def used(up_s: float, device_s: float, compile_s: float, *queues: int) -> PoolUsage:
    return PoolUsage(
        up_s=up_s, devices=2, device_busy_s=device_s, device_queue=queues[0],
        compile_places=4, compile_busy_s=compile_s, compile_queue=queues[1],
    )  # fmt: skip


def test_sums_of_each_process_add_up() -> None:
    overview = overview_of([])
    overview.tree.apply = lambda body: None  # type: ignore[method-assign] (no tree is at stake)
    for event in (
        finished(
            1, compile=3.0, prepare=1.0, lease=2.0, check=0.5, bench=1.0, usage=used(10, 2, 4, 1, 0)
        ),
        finished(2, compile=2.0, queue_s=1.0, usage=used(50, 30, 20, 3, 1)),
        # another process: what it says of its sandbox begins anew
        finished(3, epoch=2, lease=1.0, check=0.25, bench=0.5, usage=used(50, 10, 100, 0, 0)),
    ):
        overview.apply(event)
    pool = overview.summary(run="r", log="l").pool
    assert pool is not None
    assert pool.evaluations == 3
    assert pool.evaluations_per_hour == pytest.approx(300), "between the first and the second"
    assert pool.device_busy == pytest.approx((30 + 10) / (2 * 100))
    assert pool.compile_busy == pytest.approx((20 + 100) / (4 * 100))
    assert pool.device_queue == Queue(now=0, mean=4 / 3, most=3)
    assert pool.compile_queue == Queue(now=0, mean=1 / 3, most=1)
    assert pool.seconds == {
        "compile": 5.0, "prepare": 1.0, "queue": 1.0, "lease": 3.0, "autopsy": 0.0,
        "check": 0.75, "bench": 1.5,
    }  # fmt: skip
    assert pool.shares["compile"] == pytest.approx(0.5)
    assert pool.shares["bench"] == pytest.approx(0.15)
    assert pool.median_lease_s == 1.5
    told = "\n".join(status_lines(overview, overview.summary(run="r", log="l")))
    assert "devices 20 %, compilers 30 %; 300 evaluations an hour, median lease 1.50 s" in told
    assert "device 0 now, 1.3 on average, 3 at most" in told
    assert "compile 50 %, prepare 10 %, queue 10 %, lease 30 % (check 8 %, bench 15 %)" in told


def test_a_log_that_does_not_tell_gives_none() -> None:
    overview = overview_of([])
    assert overview.summary(run="r", log="l").pool is None
    overview.tree.apply = lambda body: None  # type: ignore[method-assign]
    overview.apply(finished(1, guard=0.1))
    pool = overview.summary(run="r", log="l").pool
    assert pool is not None
    assert (pool.device_busy, pool.device_queue, pool.median_lease_s) == (None, None, None)
    assert pool.shares == {}
    told = "\n".join(status_lines(overview, overview.summary(run="r", log="l")))
    assert "devices –, compilers –; – evaluations an hour" in told
