"""Benchmark of a candidate: pairs of batches, gates, loops, and the figures of its verdict.

The candidate's readings are not trusted. The baseline's worker runs the same code, so its overhead
bounds what the candidate's may have spent outside its calls, and wall time less that bounds the
candidate's time (``pairs.py``). On a GPU that bound is loose, since batches hold flushes and
covers, and calls of one batch can be worked on together; there some calls are gated afterwards
(``gate_benchmark.py``). The rules are in ``claim_rules.py``.
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
from gpu_sandbox.verifier.timing.claim_rules import labels_on_cpu, timing_labels
from gpu_sandbox.verifier.timing.eager_loop import time_loops
from gpu_sandbox.verifier.timing.event_batches import EventBatches
from gpu_sandbox.verifier.timing.gate_benchmark import GateBenchmark
from gpu_sandbox.verifier.timing.pairing import Pairing
from gpu_sandbox.verifier.timing.pairs import Pair, whole_wall_ratio
from gpu_sandbox.verifier.timing.score import Score
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.verifier.timing.stopping_rule import StoppingRule
from gpu_sandbox.verifier.timing.wall_clock_bound import Judgement
from gpu_sandbox.verifier.trials.checks import Agreement
from gpu_sandbox.verifier.worker_link.client import Peer

_MAX_RECHECK_S = 60.0  # of checks that are not the candidate's delay
_ATTEMPTS = 2


class Benchmark:
    """Made before ``peer`` has loaded the candidate, when the baseline is measured alone."""

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
        self._batches = baseline.batches
        self._drift = BaselineDrift(baseline)
        calls = self._batches.calls
        self._score = Score(job.protocol, device, calls, self._drift, self._least_ns, notes)
        self._stopping_rule = StoppingRule(
            job, self._batches, self._drift, self._score.settled, self._late, notes
        )
        self._peer, self._forgiven_s = peer, 0.0
        self._warm = False
        self._looped: Looped | None = None
        self._gates: GateBenchmark | None = None
        if self._backend.events is not None and not baseline.slow:
            each_ns, calls = self._drift.reported_ns / calls, baseline.gated_calls
            net = self._baseline.settings.reading_ns > 0
            self._gates = GateBenchmark(
                task, reference, peer, device, first, calls, each_ns, net=net
            )
            self._score.gates_decide = not self._gates.undecided

    def run(
        self, peer: Peer, agreement: Agreement, *, end_candidate: Callable[[float], None]
    ) -> Agreed:
        """Time pairs until the interval is narrow, or the time is up. Raises ``Ended``.

        ``end_candidate``, given how many ms a call of it takes, has its process ended, so that the
        baseline can be measured without it."""
        pairing = Pairing(
            self._task, self._reference, peer, self._job.protocol, self._first, self._clocks
        )
        self._warm_up(peer)
        for attempt in range(1, _ATTEMPTS + 1):
            taken = self._taken(pairing, attempt)
            pairs = self._stopping_rule.counted(taken)
            if self._drift.disturbance(pairs) < DISTURBED:
                break
        self._notes += clock_filter.notes(taken, pairs, self._clocks)
        self._note_pages(pairing, peer)
        self._time_loops(pairing, peer, pairs)
        gates = self._gates
        if gates is None:  # the candidate's process is needed no more
            self._measure_again(pairs, end_candidate)
        baseline_ns = self._score.baseline_ns(pairs)
        if gates is not None:
            gates.reported(baseline_ns)
            self._score.gates_decide = not gates.undecided
        claim, scored = self._score.reported(pairs).ratio, self._score.scored(pairs)
        judgement = Judgement(claim, scored, whole_wall_ratio(pairs).ratio)
        if gates is not None:
            judgement = gates.judge(pairing, peer, judgement, self._job.bench_s)
            self._notes += [judgement.note] if judgement.note else []
            self._measure_again(pairs, end_candidate)
        self._note_load()
        return self._agreed(pairs, judgement, agreement)

    def _time_loops(self, pairing: Pairing, peer: Peer, pairs: list[Pair]) -> None:
        """Loops of calls, on a GPU: on the CPU pairs are of such calls already."""
        if self._backend.on_host:
            return
        batches, score = self._batches, self._score
        assert isinstance(batches, EventBatches)
        host_ns = quantile([float(p.baseline.launch_ns) for p in pairs], 0.5)
        device_ns = 1e6 * score.candidate_ms(pairs), score.baseline_ns(pairs)
        self._looped = time_loops(
            pairing,
            self._reference,
            peer,
            self._task,
            self._first,
            batches,
            self._baseline.draw_s,
            host_ns,
            device_ns,
        )
        if self._looped is None:
            self._notes.append("no time in a loop: there is no memory for its inputs and outputs")

    def _measure_again(self, pairs: list[Pair], end_candidate: Callable[[float], None]) -> None:
        """Measure the baseline without the candidate, where it was slower beside it."""

        def suspect() -> bool:
            grew = self._drift.overhead_grew(pairs) and not self._score.is_corroborated(pairs)
            return grew or self._drift.disturbance(pairs) >= DISTURBED

        if suspect():
            end_candidate(self._score.candidate_ms(pairs))
            self._drift.measure_again(suspect, self._job.bench_s)

    def _least_ns(self) -> float:
        """The time to write outputs; of a task that only changes its inputs, of one byte. Less what
        events read beyond device time, where that is taken off reported times, too."""
        least = self._backend.least_write_ns(self._bytes[1] or int(self._task.mutates))
        events = self._backend.events if self._baseline.settings.reading_ns else None
        beyond_ns = events.beyond_kernel_ns() if events is not None else 0.0
        return max(least - beyond_ns, 0.0)

    # --- pairs

    def work_ahead(self, peer: Peer) -> bool:
        """Do a piece of what ``run`` needs and is not timed; False when there is no more."""
        if not self._warm and not self._baseline.slow:
            self._warm_up(peer)
            return True
        return self._batches.draw_ahead(_purpose(1), self._stopping_rule.fewest_and_most()[0])

    def _warm_up(self, peer: Peer) -> None:
        """Once, as long as the verifier's clock says, not the worker's. Slow models are warm after
        their trials."""
        if self._warm or self._baseline.slow:
            return
        self._warm = True
        self._batches.draw("warm", 0)
        batch = self._batches.run(peer, self._baseline.settings, secrets.randbits(48))
        once_s = batch.wall_ns / self._batches.calls / 1e9
        for spots in self._batches.layout.outputs:  # the same inputs again: not the answer
            peer.scramble(spots)
        peer.ask(warm(self._job.protocol, once_s), Done, "warm-up")
        if self._baseline.settings.cover_us:
            self._cover(peer)

    def _cover(self, peer: Peer) -> None:
        """Hide the host's work for the candidate's calls on both sides. How long it takes is the
        worker's word, but longer covers are longer for both."""
        self._batches.draw("warm", 1)
        batch = self._batches.run(peer, self._baseline.settings, secrets.randbits(48))
        longer_us = self._baseline.cover(batch.host_time(self._batches.calls))
        self._drift.cover_longer(1000 * longer_us * self._batches.calls)

    def _taken(self, pairing: Pairing, attempt: int) -> list[Pair]:
        began, recheck_s, self._forgiven_s = time.monotonic(), pairing.recheck_s, 0.0
        made: list[Pair] = []
        purpose, settings = _purpose(attempt), self._baseline.settings
        self._clocks.read()
        for number in itertools.count():
            made.append(pairing.pair(self._batches, settings, purpose, number))
            forgiven_s = self._forgiven_s + min(pairing.recheck_s - recheck_s, _MAX_RECHECK_S)
            if self._stopping_rule.reached(made, time.monotonic() - began - forgiven_s):
                break
        self._clocks.read()
        self._batches.forget_ahead()
        return [pair for pair in made if pair.counts]

    def _late(self, pairs: Sequence[Pair], spent_s: float) -> str:
        """Why these pairs took too long, also by the baseline's time now, beside a frozen
        candidate."""
        why = self._drift.late(pairs, spent_s)
        if not why:
            return ""
        began = time.monotonic()
        with self._peer.stopped():
            measured = self._drift.measure_slowdown()
        self._forgiven_s += time.monotonic() - began
        return self._drift.late(pairs, spent_s) if measured else why

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
            doubted=found.ratio * allowance > self._score.reported(pairs).ratio,
            input_bytes=self._bytes[0],
            output_bytes=self._bytes[1],
            labels=list(labels),
            looped=self._looped,
        )

    def _labels(self, pairs: list[Pair], found: Estimate, each_ns: float) -> dict[Label, str]:
        """Slow calls need no gate: flushes and covers are little beside them."""
        if self._backend.on_host:
            uncertainty_ns = self._score.uncertainty(pairs) * self._score.baseline_ns(pairs)
            output_ns = quantile([float(p.baseline.output_ns) for p in pairs], 0.5)
            return labels_on_cpu(uncertainty_ns, output_ns, each_ns)
        undecided = self._gates.undecided if self._gates is not None else ""
        return timing_labels(found, each_ns, undecided)

    def _note_pages(self, pairing: Pairing, peer: Peer) -> None:
        if pairing.charged_ns:
            each_us = quantile(pairing.charged_ns, 0.5) / 1e3
            added = f"{each_us:.0f} us are added to a call, as filling them takes"
            self._notes.append(f"outputs lie in pages that were mapped, not written: {added}")
        if self._backend.on_host and not peer.shows_pages:
            self._notes.append(
                "no /proc/self/pagemap here: whether outputs were written is not seen"
            )

    def _note_load(self) -> None:
        """Pairs cancel drift, not a machine with more to run than it has cores."""
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        if self._backend.on_host and load > 1.5 * cores:
            self._notes.append(f"the machine was busy (load {load:.1f} on {cores} cores)")


def _purpose(attempt: int) -> str:
    return f"timed/{attempt}"
