"""Pairs: one release of the candidate and one of the baseline, in random order, checked.

What the two say of the candidate's time, if it is believed, and if it is not.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.api.statistics import Estimate, estimate_bound, estimate_mean, estimate_median
from gpu_sandbox.ipc.verifier_messages import Differs
from gpu_sandbox.tensors.chunked import finite
from gpu_sandbox.tensors.pytree import same_shape
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.fast_path import close_by
from gpu_sandbox.verifier.numerics.mutated_inputs import expect_left
from gpu_sandbox.verifier.numerics.rules.slices import lost_in_some
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.batches import Batches, Settings, TimedBatch
from gpu_sandbox.verifier.timing.gates import GatedBatches
from gpu_sandbox.verifier.timing.sm_clocks import Clocks, Reading, Side, slower_side
from gpu_sandbox.verifier.trials.checks import (
    check_call,
    check_left,
    check_plain,
    check_shape,
    told_of,
)
from gpu_sandbox.verifier.trials.rounding_recheck import Rounding
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.page_map import filling_ns
from gpu_sandbox.verifier.worker_link.requests import Ended

__all__ = ["Pair", "Pairing", "bounded", "claimed", "whole_wall_ratio"]

_TOLD = 0.8
"""Of what it takes the baseline to tell of its outputs: by so much two processes may differ."""
_LOOKED_AT = 2
"""Calls whose inputs are looked at, bit by bit, which takes longer than to compare outputs."""


class Pair(msgspec.Struct, frozen=True):
    """One release of each side, on the same inputs. ``first``: the candidate's came first.
    ``counts``: these are the task's own. ``changed``: those of some calls are not.
    ``readings``: of the clock, as the candidate's release ended, and as the baseline's did;
    ``slowed``: the side that the device did at a lower one, by these."""

    candidate: TimedBatch
    baseline: TimedBatch
    first: bool
    counts: bool = True
    changed: bool = False
    readings: tuple[Reading | None, Reading | None] = (None, None)
    slowed: Side | None = None

    def wall_bound_ns(self, max_overhead_ns: float) -> float:
        """The candidate's time if nothing that it says is believed, but that messages,
        copies and flushes cost it what they cost the baseline, or ``max_overhead_ns``. What its own
        processes took of the baseline's time is none of that. And not less than it takes to tell of
        as many outputs: who was faster has not told of them as all do, and may hide its calls."""
        rest = self.baseline.overhead_ns - self.baseline.beside_ns
        left = self.candidate.wall_ns - min(rest, max_overhead_ns)
        return max(left, _TOLD * self.baseline.describing_ns)

    def cpu_bound_ns(self, max_overhead_ns: float) -> float:
        """The same from the processor time: less than the truth for whatever waits, but a
        busy machine does not add to it. For workers of one thread: idle ones of a pool spin."""
        rest = self.baseline.cpu_ns - self.baseline.reported_ns - self.baseline.output_ns
        return float(self.candidate.cpu_ns - max(min(rest, max_overhead_ns), 0))


class Pairing:
    """Makes pairs, and compares outputs of calls that were chosen in secret."""

    def __init__(
        self,
        task: Task,
        reference: Peer,
        peer: Peer,
        protocol: Protocol,
        first: Case,
        clocks: Clocks,
    ) -> None:
        self._task = task
        self._rounding = Rounding(task)
        self._reference = reference
        self._peer = peer
        self._protocol = protocol
        self._first = first
        self._clocks = clocks
        self.recheck_s = 0.0
        """What it took to look again at outputs that differ, and at what is left of inputs, which
        the baseline alone is not held to: that is nobody's delay."""
        self.charged_ns: list[float] = []
        """Of releases, for outputs that lie in pages which it has not written."""

    def pair(self, releases: Batches, settings: Settings, purpose: str, index: int) -> Pair:
        """The ``index``-th for ``purpose``. Raises ``Ended`` for outputs that differ."""
        releases.draw(purpose, index)
        chosen = releases.choose()
        try:
            pair = self._released(releases, settings, chosen, self._reading)
        except Ended as ended:
            raise Ended(told_of(ended.finding, _told(releases.cases))) from None
        self._check(releases, pair, chosen)
        candidate, baseline = (
            self._charged(pair.candidate.bare(), pair.baseline),
            pair.baseline.bare(),
        )
        counts, slowed = not releases.unusual, slower_side(*pair.readings)
        changed = any(case.altered for case in releases.cases)
        return Pair(candidate, baseline, pair.first, counts, changed, pair.readings, slowed)

    def _charged(self, candidate: TimedBatch, baseline: TimedBatch) -> TimedBatch:
        """With what writing its outputs takes, where it has mapped them into place instead, and the
        baseline has not."""
        mapped = candidate.mapped_bytes - baseline.mapped_bytes
        if mapped <= 0:
            return candidate
        more_ns = filling_ns(mapped)
        self.charged_ns.append(more_ns)
        return candidate.charged(int(more_ns))

    def _reading(self) -> Reading | None:
        """Of the clock, where that decides what counts."""
        return self._clocks.read_between() if self._protocol.sifts else None

    def _released(
        self,
        releases: Batches,
        settings: Settings,
        chosen: list[int],
        reading: Callable[[], Reading | None] = lambda: None,
    ) -> Pair:
        seed = secrets.randbits(48)

        def one(peer: Peer, other: Peer) -> tuple[TimedBatch, Reading | None]:
            with other.stopped() as still:
                released = releases.release(peer, settings, seed, chosen)
                beside_ns = other.used_while(still)
                return msgspec.structs.replace(released, beside_ns=beside_ns), reading()

        first = bool(secrets.randbits(1))
        if first:
            candidate = one(self._peer, self._reference)
            baseline = one(self._reference, self._peer)
        else:
            baseline = one(self._reference, self._peer)
            candidate = one(self._peer, self._reference)
        return Pair(candidate[0], baseline[0], first, readings=(candidate[1], baseline[1]))

    def gated_walls_ns(self, gated: GatedBatches, index: int) -> tuple[int, int]:
        """What a release behind a gate takes the candidate and the baseline, by our clock. Raises
        ``Ended`` for outputs that differ."""
        gated.draw(f"gated/{gated.gate}", index)  # who saw them together may not see them again
        chosen = gated.choose()
        pair = self._released(gated, Settings(), chosen)
        self._check(gated, pair, chosen)
        return pair.candidate.wall_ns, pair.baseline.wall_ns

    def looped(self, loops: Batches, index: int) -> Pair:
        """A loop of each side (``eager_loop.py``). Raises ``Ended`` for outputs that differ."""
        loops.draw("loops", index)
        chosen = loops.choose()
        pair = self._released(loops, Settings(), chosen)
        self._check(loops, pair, chosen)
        return msgspec.structs.replace(
            pair, candidate=pair.candidate.bare(), baseline=pair.baseline.bare()
        )

    def _check(self, releases: Batches, pair: Pair, chosen: list[int]) -> None:
        """What the candidate made of some inputs against what the baseline did. Whether all is
        plainly right is asked at once: a GPU is waited for once, not for each output."""
        last = releases.cases[-1]
        counts, usual = partial(self._rounding.counts, last), self._usual(last)
        tree, began = pair.baseline.last.tree, time.monotonic()
        check_shape(self._first, pair.candidate.last, None, tree, usual, counts=counts)
        self._check_plain([releases.cases[number] for number in chosen], pair)
        self.recheck_s += time.monotonic() - began
        if not self._task.mutates and not self._intact(releases, pair.candidate, chosen):
            raise Ended(Differs(reason="it changed its inputs"))
        cases = [releases.cases[number] for number in chosen]
        truths, all_got = pair.baseline.outputs, pair.candidate.outputs
        wanted = [self._expected(case, truth) for case, truth in zip(cases, truths, strict=True)]
        calls = list(zip(cases, wanted, all_got, strict=True))
        outputs = [one for _, expected, got in calls for one in zip(expected, got, strict=True)]
        fixed = self._protocol.allclose is not None
        close = [None] * len(outputs) if fixed else close_by(outputs)
        if self._task.mutates:
            began = time.monotonic()
            ways = zip(pair.baseline.left, cases[0].tensors, strict=True)
            left = [expect_left(after, before) for after, before in ways]
            check_left(left, pair.candidate.left, self._protocol, None, cases[0].changed)
            self.recheck_s += time.monotonic() - began
        if cases[0].altered is None and not fixed:  # which that is nobody knows
            began = time.monotonic()
            _look_at_columns(*calls[0][1:], close)
            self.recheck_s += time.monotonic() - began
        left_over = iter(close)
        for case, expected, got in calls:
            mine = [next(left_over) is not None and not one.drawn for one in expected]
            if case.altered is not None and not all(mine):
                expected, got = answered(expected, got)
            if not all(mine):
                began = time.monotonic()
                check_call(case, expected, got, self._protocol, None, self._rounding.timed_looks)
                self.recheck_s += time.monotonic() - began

    def _check_plain(self, cases: Sequence[Case], pair: Pair) -> None:
        """What else there is in the outputs of those calls, on a GPU."""
        theirs, mine = pair.baseline.trees, pair.candidate.trees
        unlike = None if len(theirs) == len(mine) else "plain values in some calls only"
        for case, tree, got in zip(cases, theirs, mine, strict=False):
            unlike = unlike or same_shape(tree, got)
            if unlike is None:
                counts = partial(self._rounding.counts, case)
                check_plain(tree, got, self._usual(case), None, counts)
        if unlike:
            raise Ended(Differs(reason=f"the output's structure differs: {unlike}"))

    def _usual(self, case: Case) -> Sequence[float]:
        """The sizes of its plain values."""
        return self._first.usual if case.altered is None else case.altered.usual

    def _expected(self, case: Case, truth: list[torch.Tensor]) -> list[Expected]:
        """Of a call in the releases, from what the baseline made of its inputs."""
        margins = self._first.margins if case.altered is None else case.altered.margins
        expected = [Expected.within(t, m) for t, m in zip(truth, margins, strict=True)]
        self._task.allow(expected)
        return expected

    def _intact(self, releases: Batches, released: TimedBatch, chosen: list[int]) -> bool:
        """Whether the candidate's inputs are what they were. On the CPU that was looked at before,
        and of the baseline's as well: whose memory is looked at more is faster in its next release,
        by 1.5 % in a product of two 256 KB matrices."""
        if released.intact is not None:
            return released.intact
        return all(releases.intact(self._peer, number) for number in chosen[:_LOOKED_AT])


def answered(
    expected: Sequence[Expected], got: Sequence[torch.Tensor]
) -> tuple[list[Expected], list[torch.Tensor]]:
    """Without elements of which the reference makes nothing that is finite: it was not tried on all
    inputs that are changed (``Surprises.change``), nor does it take all as they are."""
    found: list[Expected] = []
    rest: list[torch.Tensor] = []
    for one, mine in zip(expected, got, strict=True):
        if not finite(one.native):
            lost = ~torch.isfinite(one.native)
            one, mine = one.without(lost), mine.masked_fill(lost, 0.0)
        found.append(one)
        rest.append(mine)
    return found, rest


def _look_at_columns(
    expected: Sequence[Expected], got: Sequence[torch.Tensor], close: Sequence[float | None]
) -> None:
    """Those of a timed call, too: where some seem to be left out, the whole is looked at. Not of
    what is ``close`` by less than a column."""
    for one, mine, by in zip(expected, got, close, strict=False):
        if one.columns is not None and (by is None or not one.columns.none_lost(by)):
            rest, mine = one.beside_fill(mine)
            one.drawn = bool(lost_in_some(rest.native, mine, one.columns))


def _told(cases: Sequence[Case]) -> str:
    changed = {case.changed or "random inputs" for case in cases}
    return f"while it was timed: {', '.join(sorted(changed))}"


def claimed(pairs: Sequence[Pair], *, mean: bool) -> Estimate:
    """Candidate / baseline, as both say."""
    candidate, baseline = [float(p.candidate.reported_ns) for p in pairs], _baseline_ns(pairs)
    if mean:
        return estimate_mean(candidate, baseline)
    return estimate_median(candidate, baseline, _orders(pairs))


def whole_wall_ratio(pairs: Sequence[Pair]) -> Estimate:
    """All that the candidate's worker took, whatever for, against what the baseline says. Of giving
    inputs and taking outputs no more is left out than these took of the baseline: a worker that
    answers too early has us wait for its device then."""
    ways = [(p.candidate, min(p.candidate.own_ns, p.baseline.own_ns)) for p in pairs]
    walls = [float(released.wall_ns - own_ns) for released, own_ns in ways]
    return estimate_bound(walls, _baseline_ns(pairs), _orders(pairs))


def bounded(pairs: Sequence[Pair], device: torch.device, max_overhead_ns: float) -> Estimate:
    """By the verifier's clock, or on one core by the kernel's account, if that is more."""
    baseline = [float(p.baseline.reported_ns + p.baseline.output_ns) for p in pairs]
    orders = _orders(pairs)
    wall = estimate_bound([p.wall_bound_ns(max_overhead_ns) for p in pairs], baseline, orders)
    if not backend_of(device).on_host or torch.get_num_threads() > 1:
        return wall
    cpu = estimate_bound([p.cpu_bound_ns(max_overhead_ns) for p in pairs], baseline, orders)
    return max(wall, cpu, key=lambda estimate: estimate.ratio)


def _baseline_ns(pairs: Sequence[Pair]) -> list[float]:
    return [float(p.baseline.reported_ns) for p in pairs]


def _orders(pairs: Sequence[Pair]) -> list[bool]:
    return [p.first for p in pairs]
