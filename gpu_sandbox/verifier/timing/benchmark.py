"""Timing in pairs: one release of the candidate, one of the baseline, in random order.

The candidate's readings are claims. The baseline runs in a worker of its own through the
same code, so what its release spent outside the calls (messages, copies, flushes, seeds)
is what the candidate's may have spent there; its wall clock less that bounds the
candidate's time from above, whatever it claims (``pairs.py``). How far a claim is believed
beside that bound is in ``claim_rules.py``: on a busy machine it is noisy, but it cannot be forged.

On a GPU that bound is loose: a worker that leaves out the flushes and covers of the cold
cache can hide its calls in their time. And calls that are released together can be worked
on together, which is not what a module is called for. So on a GPU some are queued behind
gates afterwards (``gate_benchmark.py``): what the outer clock makes of these bounds the claim, too.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Callable, Sequence

import torch

from events.outcomes import Label
from gpu_sandbox.api.statistics import Estimate, quantile, relative_spread
from gpu_sandbox.ipc.verifier_messages import Agreed, Job, Looped
from gpu_sandbox.ipc.worker_messages import Done
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing import clock_filter
from gpu_sandbox.verifier.timing.baseline import Baseline, warm
from gpu_sandbox.verifier.timing.baseline_drift import DISTURBED, BaselineDrift
from gpu_sandbox.verifier.timing.batches import EventBatches
from gpu_sandbox.verifier.timing.eager_loop import time_loops
from gpu_sandbox.verifier.timing.gate_benchmark import GateBenchmark
from gpu_sandbox.verifier.timing.labels import labels_on_cpu, timing_labels
from gpu_sandbox.verifier.timing.pairs import Pair, Pairing, whole_wall_ratio
from gpu_sandbox.verifier.timing.score import Score
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.verifier.timing.stopping_rule import StoppingRule
from gpu_sandbox.verifier.timing.wall_clock_bound import Judgement
from gpu_sandbox.verifier.trials.checks import Agreement
from gpu_sandbox.verifier.worker_link.client import Peer

__all__ = ["Benchmark"]

_MAX_RECHECK_S = 60.0
"""That looking again at outputs may take: or what it returns would hold the device for long."""
_ATTEMPTS = 2


class Benchmark:
    """Made before ``peer`` has loaded the candidate: the baseline is measured alone then."""

    def __init__(
        self,
        task: Task,
        baseline: Baseline,
        reference: Peer,
        peer: Peer,
        job: Job,
        device: torch.device,
        first: Case,
        notes: list[str],
        clocks: Clocks,
    ) -> None:
        self._task = task
        self._clocks = clocks
        self._reference = reference
        self._job = job
        self._backend = backend_of(device)
        self._first = first
        self._notes = notes
        self._baseline = baseline
        self._bytes = baseline.moved_bytes
        baseline.get_ready()
        self._releases = baseline.releases
        self._alone = BaselineDrift(baseline)
        calls = self._releases.calls
        self._score = Score(job.protocol, device, calls, self._alone, self._least_ns, notes)
        self._enough = StoppingRule(
            job, self._releases, self._alone, self._score.settled, self._late, notes
        )
        self._peer, self._forgiven_s = peer, 0.0
        self._warm = False
        self._looped: Looped | None = None
        self._passages: GateBenchmark | None = None
        if self._backend.events is not None and not baseline.slow:
            each_ns, calls = self._alone.reported_ns / calls, baseline.gated_calls
            net = self._baseline.settings.reading_ns > 0
            self._passages = GateBenchmark(
                task, reference, peer, device, first, calls, each_ns, net=net
            )
            self._score.gates_decide = not self._passages.undecided

    def run(
        self, peer: Peer, agreement: Agreement, *, end_candidate: Callable[[float], None]
    ) -> Agreed:
        """Pairs until the interval is narrow, or the time is up. Raises ``Ended``.

        ``end_candidate``, given how many ms a call of it takes, has its process ended, to see
        what the baseline does without.
        """
        pairing = Pairing(
            self._task, self._reference, peer, self._job.protocol, self._first, self._clocks
        )
        self._warm_up(peer)
        for attempt in range(1, _ATTEMPTS + 1):
            taken = self._taken(pairing, attempt)
            pairs = self._enough.counted(taken)
            if self._alone.disturbance(pairs) < DISTURBED:
                break
        self._notes += clock_filter.notes(taken, pairs, self._clocks)
        self._note_pages(pairing, peer)
        self._time_loops(pairing, peer, pairs)
        passages = self._passages
        if passages is None:  # the candidate's process is needed no more
            self._measure_again(pairs, end_candidate)
        baseline_ns = self._score.baseline_ns(pairs)
        if passages is not None:
            passages.claim(baseline_ns)
            self._score.gates_decide = not passages.undecided
        claim, believed = self._score.claimed(pairs).ratio, self._score.believed(pairs)
        judgement = Judgement(claim, believed, whole_wall_ratio(pairs).ratio)
        if passages is not None:
            judgement = passages.judge(pairing, peer, judgement, self._job.bench_s)
            self._notes += [judgement.note] if judgement.note else []
            self._measure_again(pairs, end_candidate)
        self._note_load()
        return self._agreed(pairs, judgement, agreement)

    def _time_loops(self, pairing: Pairing, peer: Peer, pairs: list[Pair]) -> None:
        """On the CPU pairs are of such calls."""
        if self._backend.on_host:
            return
        releases, score = self._releases, self._score
        assert isinstance(releases, EventBatches)
        host_ns = quantile([float(p.baseline.launch_ns) for p in pairs], 0.5)
        device_ns = 1e6 * score.candidate_ms(pairs), score.baseline_ns(pairs)
        self._looped = time_loops(
            pairing,
            self._reference,
            peer,
            self._task,
            self._first,
            releases,
            self._baseline.draw_s,
            host_ns,
            device_ns,
        )
        if self._looped is None:
            self._notes.append("no time in a loop: there is no memory for its inputs and outputs")

    def _measure_again(self, pairs: list[Pair], end_candidate: Callable[[float], None]) -> None:
        """What the baseline does without the candidate, where it did worse beside it."""

        def suspect() -> bool:
            grew = self._alone.rest_grew(pairs) and not self._score.is_corroborated(pairs)
            return grew or self._alone.disturbance(pairs) >= DISTURBED

        if suspect():
            end_candidate(self._score.candidate_ms(pairs))
            self._alone.measure_again(suspect, self._job.bench_s)

    def _least_ns(self) -> float:
        """Who changes its inputs writes something, also where that is all that it puts out. Without
        what events read beyond a kernel's time, where that is taken off claims as well."""
        least = self._backend.least_write_ns(self._bytes[1] or int(self._task.mutates))
        events = self._backend.events if self._baseline.settings.reading_ns else None
        beyond_ns = events.beyond_kernel_ns() if events is not None else 0.0
        return max(least - beyond_ns, 0.0)

    # --- pairs

    def work_ahead(self, peer: Peer) -> bool:
        """A piece of what ``run`` needs and what is not timed; False when it's enough."""
        if not self._warm and not self._baseline.slow:
            self._warm_up(peer)
            return True
        return self._releases.draw_ahead(_purpose(1), self._enough.fewest_and_most()[0])

    def _warm_up(self, peer: Peer) -> None:
        """Once, by our own clock, not by claims: a worker's slow clock must not buy it hours.
        Slow models are warm after the correctness trials."""
        if self._warm or self._baseline.slow:
            return
        self._warm = True
        self._releases.draw("warm", 0)
        released = self._releases.release(peer, self._baseline.settings, secrets.randbits(48))
        once_s = released.wall_ns / self._releases.calls / 1e9
        for spots in self._releases.layout.outputs:  # the same inputs again: not the answer
            peer.scramble(spots)
        peer.ask(warm(self._job.protocol, once_s), Done, "warm-up")
        if self._baseline.settings.cover_us:
            self._cover(peer)

    def _cover(self, peer: Peer) -> None:
        """What the host does for the candidate's calls is hidden on both sides: it is a worker's
        word, but longer covers are longer for both."""
        self._releases.draw("warm", 1)
        released = self._releases.release(peer, self._baseline.settings, secrets.randbits(48))
        longer_us = self._baseline.cover(released.host_time(self._releases.calls))
        self._alone.cover_longer(1000 * longer_us * self._releases.calls)

    def _taken(self, pairing: Pairing, attempt: int) -> list[Pair]:
        began, recheck_s, self._forgiven_s = time.monotonic(), pairing.recheck_s, 0.0
        made: list[Pair] = []
        purpose, settings = _purpose(attempt), self._baseline.settings
        self._clocks.read()
        for number in itertools.count():
            made.append(pairing.pair(self._releases, settings, purpose, number))
            forgiven_s = self._forgiven_s + min(pairing.recheck_s - recheck_s, _MAX_RECHECK_S)
            if self._enough.reached(made, time.monotonic() - began - forgiven_s):
                break
        self._clocks.read()
        self._releases.forget_ahead()
        return [pair for pair in made if pair.counts]

    def _late(self, pairs: Sequence[Pair], spent_s: float) -> str:
        """Why, also by what the baseline takes now, while the candidate lies still."""
        why = self._alone.late(pairs, spent_s)
        if not why:
            return ""
        began = time.monotonic()
        with self._peer.stopped():
            looked = self._alone.look_again()
        self._forgiven_s += time.monotonic() - began
        return self._alone.late(pairs, spent_s) if looked else why

    def _agreed(self, pairs: list[Pair], judgement: Judgement, off: Agreement) -> Agreed:
        found = judgement.found
        allowance = self._score.allowance(pairs, found.ratio)
        baseline_ms = self._score.baseline_ns(pairs) / 1e6
        labels = self._labels(pairs, found, 1e6 * baseline_ms * min(found.ratio, 1.0))
        if not self._task.has_second_place:
            labels["one-place"] = "memory holds no second set of inputs: all calls share addresses"
        self._notes += [f"{label}: {why}" for label, why in labels.items()]
        return Agreed(
            ratio=found.ratio * allowance,
            ratio_low=found.low * allowance,
            ratio_high=found.high * allowance,
            bounded_ratio=max(judgement.at_most, found.ratio) * allowance,
            pairs=len(pairs),
            candidate_ms=self._score.candidate_ms(pairs),
            candidate_spread=relative_spread([float(p.candidate.reported_ns) for p in pairs]),
            baseline_ms=baseline_ms,
            max_abs_error=off.worst,
            error=off.error,
            error_bound=off.bound,
            trial=off.trial,
            doubted=found.ratio * allowance > self._score.claimed(pairs).ratio,
            input_bytes=self._bytes[0],
            output_bytes=self._bytes[1],
            labels=list(labels),
            looped=self._looped,
        )

    def _labels(self, pairs: list[Pair], found: Estimate, each_ns: float) -> dict[Label, str]:
        """Slow calls need no gate: flushes and covers are as nothing beside them."""
        if self._backend.on_host:
            blur_ns = self._score.blur(pairs) * self._score.baseline_ns(pairs)
            output_ns = quantile([float(p.baseline.output_ns) for p in pairs], 0.5)
            return labels_on_cpu(blur_ns, output_ns, each_ns)
        undecided = self._passages.undecided if self._passages is not None else ""
        return timing_labels(found, each_ns, undecided)

    def _note_pages(self, pairing: Pairing, peer: Peer) -> None:
        if pairing.charged_ns:
            each_us = quantile(pairing.charged_ns, 0.5) / 1e3
            told = f"{each_us:.0f} us are added to a call, as filling them takes"
            self._notes.append(f"outputs lie in pages that were mapped, not written: {told}")
        if self._backend.on_host and not peer.shows_pages:
            self._notes.append(
                "no /proc/self/pagemap here: whether outputs were written is not seen"
            )

    def _note_load(self) -> None:
        """Pairing takes out drift, not a machine with more to run than it has cores."""
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        if self._backend.on_host and load > 1.5 * cores:
            self._notes.append(f"the machine was busy (load {load:.1f} on {cores} cores)")


def _purpose(attempt: int) -> str:
    return f"timed/{attempt}"
