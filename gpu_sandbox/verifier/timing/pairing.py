"""Making of pairs: both sides' batches in random order, and the comparison of their outputs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec
import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.ipc.verifier_messages import Differs
from gpu_sandbox.tensors.chunked import finite
from gpu_sandbox.tensors.pytree import same_shape
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.fast_path import surely_right_errors
from gpu_sandbox.verifier.numerics.mutated_inputs import expect_mutated
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.batches import Batches, Settings, TimedBatch
from gpu_sandbox.verifier.timing.gates import GatedBatches
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.timing.sm_clocks import Clocks, Reading, slower_side
from gpu_sandbox.verifier.trials.checks import (
    CHANGED_INPUTS,
    check_call,
    check_mutated,
    check_plain,
    check_shape,
    with_inputs_named,
)
from gpu_sandbox.verifier.trials.rounding_recheck import RoundingRecheck
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.page_map import filling_ns
from gpu_sandbox.verifier.worker_link.requests import Ended

_CHECKED_INPUTS = 2  # calls whose inputs are compared bit by bit, which takes longer than outputs


class Pairing:
    """Both sides' workers. Its methods raise ``Ended`` for outputs that differ."""

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
        self._recheck = RoundingRecheck(task)
        self._reference = reference
        self._peer = peer
        self._protocol = protocol
        self._first = first
        self._clocks = clocks
        self.recheck_s = 0.0
        """Spent on checks that the baseline alone is not subject to: not the candidate's delay."""
        self.charged_ns: list[float] = []
        """What batches were charged for outputs in pages that were not written."""

    def pair(self, batches: Batches, settings: Settings, purpose: str, index: int) -> Pair:
        """The ``index``-th pair for ``purpose``."""
        batches.draw(purpose, index)
        chosen = batches.choose()
        try:
            pair = self._run_pair(batches, settings, chosen, self._reading)
        except Ended as ended:
            raise Ended(with_inputs_named(ended.finding, _describe_inputs(batches.cases))) from None
        self._check(batches, pair, chosen)
        return msgspec.structs.replace(
            pair,
            candidate=self._charged(pair.candidate.bare(), pair.baseline),
            baseline=pair.baseline.bare(),
            counts=not batches.unusual,
            changed=any(case.transform for case in batches.cases),
            slowed=slower_side(*pair.readings),
        )

    def gated_walls_ns(self, gated: GatedBatches, index: int) -> tuple[int, int]:
        """Wall times of a gated batch of the candidate and of the baseline."""
        gated.draw(f"gated/{gated.gate}", index)  # inputs seen together don't come one by one
        chosen = gated.choose()
        pair = self._run_pair(gated, Settings(), chosen)
        self._check(gated, pair, chosen)
        return pair.candidate.wall_ns, pair.baseline.wall_ns

    def looped(self, loops: Batches, index: int) -> Pair:
        """A loop of each side (``eager_loop.py``)."""
        loops.draw("loops", index)
        chosen = loops.choose()
        pair = self._run_pair(loops, Settings(), chosen)
        self._check(loops, pair, chosen)
        candidate, baseline = pair.candidate.bare(), pair.baseline.bare()
        return msgspec.structs.replace(pair, candidate=candidate, baseline=baseline)

    def _charged(self, candidate: TimedBatch, baseline: TimedBatch) -> TimedBatch:
        """Add the time to fill outputs that the candidate mapped into place beyond the baseline."""
        mapped = candidate.mapped_bytes - baseline.mapped_bytes
        if mapped <= 0:
            return candidate
        more_ns = filling_ns(mapped)
        self.charged_ns.append(more_ns)
        return candidate.charged(int(more_ns))

    def _reading(self) -> Reading | None:
        """A reading of the SM clock, where that decides which pairs count."""
        return self._clocks.read_between() if self._protocol.sifts else None

    def _run_pair(
        self,
        batches: Batches,
        settings: Settings,
        chosen: list[int],
        reading: Callable[[], Reading | None] = lambda: None,
    ) -> Pair:
        seed = secrets.randbits(48)

        def run(peer: Peer, other: Peer) -> tuple[TimedBatch, Reading | None]:
            with other.stopped() as still:
                batch = batches.run(peer, settings, seed, chosen)
                other_side_ns = other.used_while(still)
                return msgspec.structs.replace(batch, other_side_ns=other_side_ns), reading()

        first = bool(secrets.randbits(1))
        if first:
            candidate = run(self._peer, self._reference)
            baseline = run(self._reference, self._peer)
        else:
            baseline = run(self._reference, self._peer)
            candidate = run(self._peer, self._reference)
        return Pair(candidate[0], baseline[0], first, readings=(candidate[1], baseline[1]))

    # --- comparison of outputs

    def _check(self, batches: Batches, pair: Pair, chosen: list[int]) -> None:
        """Compare the candidate's outputs of the ``chosen`` calls with the baseline's.

        Whether all are within the fast path's bounds is asked at once, so that a GPU is waited for
        once, not for each output."""
        cases = [batches.cases[number] for number in chosen]
        last = batches.cases[-1]
        with self._rechecking():
            check_shape(
                self._first,
                pair.candidate.last,
                None,
                pair.baseline.last.tree,
                self._usual(last),
                accepts_counts=partial(self._recheck.accepts_counts, last),
            )
            self._check_plain(cases, pair)
        if not self._task.mutates and not self._is_intact(batches, pair.candidate, chosen):
            raise Ended(Differs(reason=CHANGED_INPUTS))
        truths, all_got = pair.baseline.outputs, pair.candidate.outputs
        wanted = [self._expected(case, truth) for case, truth in zip(cases, truths, strict=True)]
        calls = list(zip(cases, wanted, all_got, strict=True))
        outputs = [one for _, expected, got in calls for one in zip(expected, got, strict=True)]
        fixed = self._protocol.allclose is not None
        close = [None] * len(outputs) if fixed else surely_right_errors(outputs)
        if self._task.mutates:
            with self._rechecking():
                self._check_mutated(cases[0], pair)
        if cases[0].transform is None and not fixed:  # the first of a random order
            with self._rechecking():
                for one, output, error in zip(wanted[0], all_got[0], close, strict=False):
                    one.check_in_full_if_suspicious(output, error)
        remaining = iter(close)
        for case, expected, got in calls:
            passed = [next(remaining) is not None and not one.full_check for one in expected]
            if all(passed):
                continue
            if case.transform is not None:
                expected, got = _finite_part(expected, got)
            with self._rechecking():
                check_call(case, expected, got, self._protocol, None, self._recheck.timed_rechecks)

    @contextmanager
    def _rechecking(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.recheck_s += time.monotonic() - began

    def _check_mutated(self, case: Case, pair: Pair) -> None:
        both = zip(pair.baseline.mutated_inputs, case.tensors, strict=True)
        mutated = [expect_mutated(after, before) for after, before in both]
        got = pair.candidate.mutated_inputs
        check_mutated(mutated, got, self._protocol, None, case.description)

    def _check_plain(self, cases: Sequence[Case], pair: Pair) -> None:
        """Compare plain values and structure of those calls' outputs, on a GPU."""
        wanted, got = pair.baseline.trees, pair.candidate.trees
        unlike = None if len(wanted) == len(got) else "plain values in some calls only"
        for case, tree, mine in zip(cases, wanted, got, strict=False):
            unlike = unlike or same_shape(tree, mine)
            if unlike is None:
                accepts_counts = partial(self._recheck.accepts_counts, case)
                check_plain(tree, mine, self._usual(case), None, accepts_counts)
        if unlike:
            raise Ended(Differs(reason=f"the output's structure differs: {unlike}"))

    def _usual(self, case: Case) -> Sequence[float]:
        """The sizes of its plain values."""
        return self._first.usual_sizes if case.transform is None else case.transform.usual_sizes

    def _expected(self, case: Case, truth: list[torch.Tensor]) -> list[Expected]:
        """Bounds for a call's outputs around the baseline's."""
        margins = self._first.margins if case.transform is None else case.transform.margins
        expected = [Expected.within(t, m) for t, m in zip(truth, margins, strict=True)]
        self._task.allow(expected)
        return expected

    def _is_intact(self, batches: Batches, batch: TimedBatch, chosen: list[int]) -> bool:
        """Whether the candidate's inputs are unchanged. On the CPU that was compared while it was
        frozen, on both sides: reading a worker's memory makes its next batch faster."""
        if batch.intact is not None:
            return batch.intact
        return all(batches.intact(self._peer, number) for number in chosen[:_CHECKED_INPUTS])


def _finite_part(
    expected: Sequence[Expected], got: Sequence[torch.Tensor]
) -> tuple[list[Expected], list[torch.Tensor]]:
    """Without elements where the reference is not finite: it was not tried on all hidden cases
    (``HiddenCases.change``)."""
    kept: list[Expected] = []
    kept_got: list[torch.Tensor] = []
    for one, mine in zip(expected, got, strict=True):
        if not finite(one.native):
            lost = ~torch.isfinite(one.native)
            one, mine = one.without(lost), mine.masked_fill(lost, 0.0)
        kept.append(one)
        kept_got.append(mine)
    return kept, kept_got


def _describe_inputs(cases: Sequence[Case]) -> str:
    changed = {case.description or "random inputs" for case in cases}
    return f"while it was timed: {', '.join(sorted(changed))}"
