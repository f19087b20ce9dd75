"""Rules for what wall times of gated batches say of a self-reported time. Pure.

Noise only adds to wall time, so one of the shortest batches counts, and their spread is allowed
for. Gated calls find in the cache what the call before used, and no reading of a clock is in them:
they take less than reported times, hardly ever more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpu_sandbox.api.statistics import Estimate, estimate_bound, quantile
from gpu_sandbox.verifier.timing.claim_rules import CLOCK, disputed_note

MIN_BATCHES = (10, 4, 3)
_CLEAR = (0.1, 0.01)
"""Fewer batches do where the noise is below so much of the baseline's time."""
_LOW = 0.25
_MAX_WARM_SHARE = 0.5
"""Of the time of warm calls that batches may differ by: a false time of almost nothing would pass
beyond that."""
_BATCH_NS, _CALL_NS = 15_000.0, 500.0  # that a batch, and each call, may differ for no reason
DISPUTED = 1.25
_CREDIBLE = 1.1
"""Times the reported time that calls may measure. Between this and ``DISPUTED`` noise may have had
a part: the reported time is raised to what is measured over this."""


class GateCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of gate, with what it takes while there is no candidate, in nanoseconds.

    Of a batch of ``calls``: ``empty_ns`` with nothing called, ``noise_ns`` between the shortest and
    the median of several such, ``usual_ns`` with the baseline's calls, ``warm_ns`` what these add,
    ``cold_ns`` what the baseline reports for as many on a cold cache. Of a call: ``crypt_ns`` for
    decryption, encryption and digests, and ``reading_ns`` of a reported time is only the reading of
    the clock.
    """

    together: bool
    calls: int
    empty_ns: float
    noise_ns: float
    usual_ns: float
    warm_ns: float
    cold_ns: float
    crypt_ns: float
    reading_ns: float

    @property
    def slack_ns(self) -> float:
        """By how much a batch may be longer than another of the same calls."""
        return least_slack_ns(self.calls) + self.noise_ns

    @property
    def min_batches(self) -> int:
        return MIN_BATCHES[sum(self.noise_ns < clear * self.cold_ns for clear in _CLEAR)]

    @property
    def decides(self) -> bool:
        """Whether calls as long as the baseline's can be told from none."""
        return self.slack_ns < self.cold_ns

    @property
    def decides_warm(self) -> bool:
        """The same, clearly, and of calls as short as the baseline's on a warm cache."""
        return self.slack_ns < _MAX_WARM_SHARE * self.warm_ns

    def is_slowed_by(self, walls: Sequence[float]) -> bool:
        """Whether the baseline's walls beside a candidate show a transient slowdown."""
        return low(walls) > self.usual_ns + self.slack_ns

    def with_reported(self, each_ns: float) -> GateCalibration:
        """The same if the baseline reports so much of a call, where that is less: a busy processor
        launches late, and then a call reports twice its time."""
        cold_ns = min(self.cold_ns, each_ns * self.calls)
        return msgspec.structs.replace(self, cold_ns=cold_ns, warm_ns=min(self.warm_ns, cold_ns))


def least_slack_ns(calls: int) -> float:
    """Slack without noise."""
    return _BATCH_NS + _CALL_NS * calls


class Judgement(msgspec.Struct, frozen=True):
    """The ratio that the worker reports, the one to score, the most that it can be, and a note."""

    claim: float
    found: Estimate
    at_most: float
    note: str = ""


def judge_gated(gate: GateCalibration, walls: list[float], before: Judgement) -> Judgement:
    """What the candidate's walls, two at least, say of the reported ratio in ``before``, whatever
    that was scored as.

    Calls that are surely slower, by a quarter and the gate's slack, are scored by their walls, on a
    warm cache and so against the baseline on one. A reported time that is corroborated only in part
    is raised to that part.
    """
    claim, found, cold_ns = before.claim, before.found, gate.cold_ns
    nets = [wall - gate.empty_ns for wall in walls]
    net_ns = low(nets)
    at_most = before.at_most
    if gate.together:  # one by one, what is not the calls' is as long as they are
        at_most = min(at_most, quantile(walls, 0.5) / cold_ns)
    at_most = max(at_most, (net_ns + gate.crypt_ns * gate.calls) / cold_ns)
    read_ns = gate.reading_ns * gate.calls
    reported_ns = max(claim * cold_ns - read_ns, 0.0)
    # The shortest may be so by chance. Of many, a candidate that knows that it is disputed could
    # leave work out in some.
    surely_ns = max(sorted(nets)[1], net_ns) - gate.slack_ns
    credible = found.at_least((surely_ns / _CREDIBLE + read_ns) / cold_ns)
    if surely_ns > DISPUTED * reported_ns:
        bound = estimate_bound(nets, [gate.warm_ns] * len(nets))
        scored = max(net_ns / gate.warm_ns, credible.ratio)
        credible = Estimate(scored, min(bound.low, scored), max(bound.high, scored))
    if credible.ratio == found.ratio:
        return Judgement(claim, found, max(at_most, found.ratio), before.note)
    note = disputed_note(credible.ratio, f"{CLOCK} behind gates", claim)
    return Judgement(claim, credible, max(at_most, credible.ratio), note)


def low(values: Sequence[float]) -> float:
    """Their lower quartile."""
    return quantile(values, _LOW)
