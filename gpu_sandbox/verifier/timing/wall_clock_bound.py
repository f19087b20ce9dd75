"""What walls behind gates say of a claim. Pure: numbers in, numbers out.

Noise only adds to a wall, so one of the shortest of several counts, not their median, and how far
apart they lie is allowed for. Calls behind a gate find in the cache what the one before has used,
and nobody's reading of a clock is in them: they take less there than is claimed, hardly ever more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpu_sandbox.api.statistics import Estimate, estimate_bound, quantile

__all__ = [
    "BELIEVED_DOUBT",
    "FEWEST_LOOKS",
    "GateCalibration",
    "Judgement",
    "judged",
    "least_slack_ns",
    "low",
]

FEWEST_LOOKS = (10, 4, 3)
_CLEAR = (0.1, 0.01)
"""Fewer looks will do where the noise is less than so much of what the baseline takes."""
_LOW = 0.25
_WARM_SHARE = 0.5
"""Of what warm calls take, at most, is what releases may differ by, or claims of next to nothing
would pass."""
_RELEASE_NS, _CALL_NS = 15_000.0, 500.0
"""What a release, and each of its calls, may take more than another for no reason of its own."""
BELIEVED_DOUBT = 1.25
_BEYOND = 1.1
"""Calls may be measured as so many times what is claimed. Beyond, but not by a quarter, noise may
have had a part in it: the claim is raised to what is measured over this."""


class GateCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """One way through gates, with what it takes while no candidate is there.

    Nanoseconds of a release of ``calls``: ``empty_ns`` with nothing called, ``noise_ns``
    between the shortest and the median of several such, ``usual_ns`` with the baseline's calls,
    ``warm_ns`` what these add, ``own_ns`` what it claims for as many on a cold cache. Of a call:
    ``beside_ns`` is what unsealing, sealing and digests take, and ``reading_ns`` how much of a
    claim is only the reading of the clock.
    """

    together: bool
    calls: int
    empty_ns: float
    noise_ns: float
    usual_ns: float
    warm_ns: float
    own_ns: float
    beside_ns: float
    reading_ns: float

    @property
    def slack_ns(self) -> float:
        """By how much a release may be longer than another of the same calls."""
        return least_slack_ns(self.calls) + self.noise_ns

    @property
    def looks(self) -> int:
        """How many there should be, at least."""
        return FEWEST_LOOKS[sum(self.noise_ns < clear * self.own_ns for clear in _CLEAR)]

    @property
    def decides(self) -> bool:
        """Whether calls that take as long as the baseline's can be told from none."""
        return self.slack_ns < self.own_ns

    @property
    def decides_warm(self) -> bool:
        """Clearly, and of such as take no longer than the baseline's here, on a warm cache."""
        return self.slack_ns < _WARM_SHARE * self.warm_ns

    def slowed(self, walls: Sequence[float]) -> bool:
        """Whether walls of the baseline beside a candidate say that something is slow just now."""
        return low(walls) > self.usual_ns + self.slack_ns

    def claiming(self, each_ns: float) -> GateCalibration:
        """The same if the baseline claims so much of a call, where that is less. A busy processor
        is late with what it launches: then a call claims twice what it takes."""
        own_ns = min(self.own_ns, each_ns * self.calls)
        return msgspec.structs.replace(self, own_ns=own_ns, warm_ns=min(self.warm_ns, own_ns))


def least_slack_ns(calls: int) -> float:
    """Whatever the noise is."""
    return _RELEASE_NS + _CALL_NS * calls


class Judgement(msgspec.Struct, frozen=True):
    """The ratio that the worker claims, the one to score, the most that it can be, and what is to
    be said about it."""

    claim: float
    found: Estimate
    at_most: float
    note: str = ""


def judged(passage: GateCalibration, walls: list[float], before: Judgement) -> Judgement:
    """What the candidate's walls, two at least, say of the claim in ``before``, whatever that was
    scored as. Pure.

    What is surely slower, by a quarter and the passage's own resolution, is scored by them: on
    a warm cache, so against the baseline on one. A claim that they bear out to a part is no
    better than that part.
    """
    claim, found, own_ns = before.claim, before.found, passage.own_ns
    nets = [wall - passage.empty_ns for wall in walls]
    net_ns = low(nets)
    at_most = before.at_most
    if passage.together:  # of calls one by one, what is not theirs is as long as they are
        at_most = min(at_most, quantile(walls, 0.5) / own_ns)
    at_most = max(at_most, (net_ns + passage.beside_ns * passage.calls) / own_ns)
    read_ns = passage.reading_ns * passage.calls
    claimed_ns = max(claim * own_ns - read_ns, 0.0)
    # The shortest may be so by chance. Of many, a candidate knows that it is doubted, and could
    # leave work out in some.
    surely_ns = max(sorted(nets)[1], net_ns) - passage.slack_ns
    credible = found.at_least((surely_ns / _BEYOND + read_ns) / own_ns)
    if surely_ns > BELIEVED_DOUBT * claimed_ns:
        gate = estimate_bound(nets, [passage.warm_ns] * len(nets))
        scored = max(net_ns / passage.warm_ns, credible.ratio)
        credible = Estimate(scored, min(gate.low, scored), max(gate.high, scored))
    if credible.ratio == found.ratio:
        return Judgement(claim, found, max(at_most, found.ratio), before.note)
    told = (
        f"scored by the outer clock: {1 / credible.ratio:.2f}x where calls are let in by a "
        f"gate, not the {1 / claim:.2f}x that its own process claims"
    )
    return Judgement(claim, credible, max(at_most, credible.ratio), told)


def low(values: Sequence[float]) -> float:
    """Their lower quartile."""
    return quantile(values, _LOW)
