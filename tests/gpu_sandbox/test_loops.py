"""Calls in a plain loop: who times them, what is compared, what a verdict makes of them.

Real workers, each a process of its own at the end of a socket, on the CPU.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import torch

from events.outcomes import Correct, ScoredBy
from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.devices.device_session import JobResult
from gpu_sandbox.devices.recheck import ToBeat, beats, ratio_by
from gpu_sandbox.evaluate.outcomes import in_loops
from gpu_sandbox.ipc.values import TensorAt
from gpu_sandbox.ipc.verifier_messages import Agreed, Differs, Finding, Looped, Report, WorkerFailed
from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.eager_loop import LoopBatches, looped, time_loops
from gpu_sandbox.verifier.timing.event_batches import EventBatches
from gpu_sandbox.verifier.timing.pairing import Pairing
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.verifier.trials.trial_calls import FirstCall, with_first_call
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended
from gpu_sandbox.worker.main import main
from tests.forks import FORKS
from tests.gpu_sandbox.sources import ADD_RELU, HONEST
from tests.gpu_sandbox.test_peer import Processes

CPU, MS = torch.device("cpu"), 1_000_000
SLEEP_S = 0.002


def serve(peer: socket.socket, home: Path) -> None:
    os.chdir(home)
    os.environ["HOME"] = str(home)
    main(peer=peer.detach(), device="cpu", descriptors=256)


def sleeping(source: str) -> str:
    head, call = "def forward(self, a, b):\n", f"        __import__('time').sleep({SLEEP_S})\n"
    assert head in source
    return source.replace(head, head + call)


def forward(body: str) -> str:
    return f"import torch\nclass ModelNew(torch.nn.Module):\n    calls = 0\n{body}"


MEMORISED = forward("""
    def forward(self, a, b):
        self.kept = torch.relu(a + b) if not self.calls % 8 else self.kept
        self.calls += 1
        return self.kept
""")
ONE_BUFFER = forward("""
    def forward(self, a, b):
        self.out = self.out if self.calls else torch.empty_like(a)
        self.calls += 1
        return self.out.copy_(torch.relu(a + b))
""")
FAILS = forward("""
    def forward(self, a, b):
        raise RuntimeError('not in a loop')
""")


class Bench:
    """A reference and candidates, each in a worker."""

    def __init__(self, stack: ExitStack, directory: Path, task: str = ADD_RELU) -> None:
        self._stack, self._directory = stack, directory
        path = directory / "task.py"
        path.write_text(task)
        self.task = Task(str(path), CPU, Seeds(3))
        self.first: Case = self.task.draw("trial", 0)
        self.task.solve(self.first, exact=True)
        self.task.find_owned(self.first)
        self.reference = self.peer(task, "Model", reference=True)

    def peer(self, source: str, name: str = "ModelNew", *, reference: bool = False) -> Peer:
        here = self._directory / f"{name}-{len(list(self._directory.iterdir()))}"
        here.mkdir()
        ours, theirs = socket.socketpair()
        self._stack.enter_context(ours)
        process = FORKS.Process(target=serve, args=(theirs, here))
        process.start()
        theirs.close()
        self._stack.callback(process.join)
        self._stack.callback(process.kill)
        assert process.pid is not None
        peer = Peer(ours, process.pid, CPU, 60.0, reference=reference)
        self._stack.callback(peer.close)
        peer.start_loading(self.task, source, name, [], [])
        peer.finish_loading(60.0)
        return peer

    def pairing(self, peer: Peer) -> Pairing:
        protocol = protocol_named("strict")
        return Pairing(self.task, self.reference, peer, protocol, self.first, Clocks(None))

    def loops(self, calls: int) -> LoopBatches:
        return LoopBatches(self.task, self.first, CPU, calls, 3)


@pytest.fixture(autouse=True)
def unstopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody stops the other side, as on a GPU: that takes jail inits, which these have not."""
    monkeypatch.setattr("gpu_sandbox.verifier.worker_link.client.Stoppable", Processes)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(stack, tmp_path)


def ends(bench: Bench, source: str, calls: int) -> Finding:
    with pytest.raises(Ended) as ended:
        bench.pairing(bench.peer(source)).looped(bench.loops(calls), 0)
    return ended.value.finding


@pytest.mark.process
def test_a_loop_takes_what_its_calls_take_by_the_verifiers_clock(bench: Bench) -> None:
    calls = 8
    pairing, loops = bench.pairing(bench.peer(sleeping(HONEST))), bench.loops(calls)
    pair = pairing.looped(loops, 0)
    assert pair.candidate.wall_ns >= calls * SLEEP_S * 1e9
    assert pair.baseline.wall_ns < pair.candidate.wall_ns
    assert (pair.candidate.reported_ns, pair.candidate.outputs) == (0, [])
    assert loops.empty_ns(bench.reference) > 0


def test_inputs_are_other_ones_in_each_loop_and_which_calls_share_them_is_not_known(
    bench: Bench,
) -> None:
    loops, seen, orders = bench.loops(12), set[int](), set[tuple[int, ...]]()
    for number in range(4):
        loops.draw("loops", number)
        drawn = [case.tensors[0].sum().item() for case in loops.cases]
        assert len(drawn) == 12
        assert len(set(drawn)) == 3
        assert not seen & set(drawn)
        seen |= set(drawn)
        orders.add(tuple(drawn.index(each) for each in drawn))
    assert len(orders) > 1


@pytest.mark.process
def test_an_empty_loop_calls_no_model(tmp_path: Path) -> None:
    with ExitStack() as stack:
        bench = Bench(stack, tmp_path, sleeping(ADD_RELU))
        loops = bench.loops(8)
        loops.draw("loops", 0)
        assert loops.empty_ns(bench.reference) < loops.run(bench.reference, None, 1).wall_ns  # type: ignore[arg-type]
        assert loops.empty_ns(bench.reference) < 8 * SLEEP_S * 1e9


@pytest.mark.process
@pytest.mark.parametrize("source", [MEMORISED, ONE_BUFFER], ids=["leaves out", "one buffer"])
def test_what_a_loop_leaves_out_is_found(bench: Bench, source: str) -> None:
    assert isinstance(ends(bench, source, 8), Differs)


@pytest.mark.process
def test_who_fails_in_a_loop_has_failed(bench: Bench) -> None:
    finding = ends(bench, FAILS, 4)
    assert isinstance(finding, WorkerFailed)
    assert "not in a loop" in finding.message


@pytest.mark.process
def test_pairs_of_loops_come_to_a_ratio(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that sleeps is as slow as that, and the verifier's figure says so."""
    monkeypatch.setattr(EventBatches, "_affordable_bytes", lambda _: 1 << 30)
    peer = bench.peer(sleeping(HONEST))
    releases = EventBatches(bench.task, bench.first, CPU, 4)
    found = time_loops(
        bench.pairing(peer),
        bench.reference,
        peer,
        bench.task,
        bench.first,
        releases,
        1e-3,
        20e3,
        (1e3, 1e3),
    )
    assert found is not None
    assert found.candidate_ms >= 1e3 * SLEEP_S
    assert found.low <= found.ratio <= found.high
    assert found.ratio > 3, "the sum of two small tensors takes some microseconds"


@pytest.mark.process
def test_slow_calls_are_looped_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventBatches, "_affordable_bytes", lambda _: 1 << 30)
    peer = bench.peer(HONEST)
    pairing = bench.pairing(peer)
    made: list[int] = []
    looped_by = pairing.looped
    monkeypatch.setattr(
        pairing, "looped", lambda loops, at: made.append(loops.calls) or looped_by(loops, at)
    )
    found = time_loops(
        pairing, bench.reference, peer, bench.task, bench.first,
        EventBatches(bench.task, bench.first, CPU, 1), 1e-3, 20e3, (60 * MS, 60 * MS),
    )  # fmt: skip
    assert made == [1]
    assert found is not None
    assert found.high / found.low > 1.5, "one pair is not sure of much"
    assert found.candidate_ms == pytest.approx(15.0), "a quarter of its device time at least"


@pytest.mark.process
def test_without_memory_for_many_one_call_has_to_do(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventBatches, "_affordable_bytes", lambda _: 1 << 30)
    short_of_memory = WorkerFailed(stage="run", kind="OutOfMemoryError", message="", traceback="")
    peer, tried = bench.peer(HONEST), list[int]()
    pairing = bench.pairing(peer)
    looped_by = pairing.looped

    def lacking(loops: LoopBatches, at: int) -> Pair:
        tried.append(loops.calls)
        if loops.calls > 1:
            raise Ended(short_of_memory)
        return looped_by(loops, at)

    monkeypatch.setattr(pairing, "looped", lacking)
    timed = time_loops(
        pairing, bench.reference, peer, bench.task, bench.first,
        EventBatches(bench.task, bench.first, CPU, 4), 1e-3, 20e3, (1e3, 1e3),
    )  # fmt: skip
    assert timed is not None
    assert tried[0] > 1
    assert set(tried[1:]) == {1}


# --- what is made of them


def pair(candidate_ms: float, baseline_ms: float, *, first: bool = True) -> Pair:
    ran = Ran(tree=TensorAt(index=0), leaves=[])
    sides = (TimedBatch(0, round(ms * MS), 0, [], ran) for ms in (candidate_ms, baseline_ms))
    return Pair(*sides, first)


def test_what_is_no_call_is_taken_off_both_sides() -> None:
    pairs = [pair(5.0, 9.0), pair(5.2, 9.1), pair(4.8, 8.9)]
    found = looped(pairs, [1.0 * MS, 0.9 * MS, 1.1 * MS], 10, (0, 0))
    assert found.ratio == pytest.approx(0.5, rel=0.01)
    assert (found.candidate_ms, found.baseline_ms) == pytest.approx((0.4, 0.8))


def test_who_answers_at_once_gains_no_more_than_a_warm_cache_could() -> None:
    found = looped([pair(0.01, 9.0)] * 6, [1.0 * MS], 10, (0.1 * MS, 0.1 * MS))
    assert found.candidate_ms == pytest.approx(0.1)


AGREED = Agreed(
    ratio=0.5, ratio_low=0.45, ratio_high=0.55, bounded_ratio=1.0, pairs=20, candidate_ms=0.01,
    candidate_spread=0.1, baseline_ms=0.02, max_abs_error=0.0,
)  # fmt: skip
CORRECT = Correct(
    runtime_ms=1.0, speedup=2.0, ratio=0.5, ratio_low=0.45, ratio_high=0.55, pairs=20,
    candidate_ms=0.01, baseline_ms=0.02,
)  # fmt: skip


def in_a_loop(ratio: float, doubt: float = 1.1) -> Agreed:
    found = Looped(
        ratio=ratio, low=ratio / doubt, high=ratio * doubt, candidate_ms=ratio, baseline_ms=1.0
    )
    return msgspec.structs.replace(AGREED, looped=found)


def test_a_verdict_has_both_times() -> None:
    outcome, notes = in_loops(CORRECT, [in_a_loop(0.8)])
    assert outcome.speedup == 2.0
    assert outcome.eager_speedup == pytest.approx(1.25)
    assert (outcome.eager_low, outcome.eager_high) == pytest.approx((1.25 / 1.1, 1.25 * 1.1))
    assert (outcome.eager_ms, outcome.eager_baseline_ms) == (0.8, 1.0)
    assert (outcome.labels, notes) == ([], [])


def test_of_two_looks_the_worse_loops_count_and_the_interval_is_of_both() -> None:
    outcome, _ = in_loops(CORRECT, [in_a_loop(0.8), in_a_loop(0.5)])
    assert outcome.eager_speedup == pytest.approx(1.25)
    assert outcome.eager_high == pytest.approx(2.2)


@pytest.mark.parametrize(
    ("ratio_high", "looped_ratio", "doubt", "labels"),
    [
        (0.55, 1.5, 1.1, ["host-bound"]),
        (0.55, 1.05, 1.1, []),
        (1.01, 1.5, 1.1, []),
        (0.55, 0.9, 1.01, []),
    ],
    ids=["certain", "perhaps not slower", "perhaps not faster", "faster in both"],
)
def test_host_bound_is_faster_on_the_device_and_slower_in_a_loop(
    ratio_high: float, looped_ratio: float, doubt: float, labels: list[str]
) -> None:
    outcome = msgspec.structs.replace(CORRECT, ratio_high=ratio_high)
    outcome, notes = in_loops(outcome, [in_a_loop(looped_ratio, doubt)])
    assert outcome.labels == labels
    assert [note.split(":")[0] for note in notes] == labels


def test_on_the_cpu_the_two_are_one() -> None:
    outcome, notes = in_loops(CORRECT, [AGREED])
    assert (outcome, notes) == (CORRECT, [])
    assert ratio_by(AGREED, "eager") == ratio_by(AGREED, "device") == 0.5
    assert ratio_by(in_a_loop(0.8), "eager") == 0.8
    assert outcome.runtime_by("eager") == outcome.runtime_ms


@pytest.mark.parametrize(
    ("finding", "score", "beaten"),
    [
        (in_a_loop(0.8), "device", True),
        (in_a_loop(0.8), "eager", False),
        (in_a_loop(0.5), "eager", True),
        (AGREED, "eager", True),
        (Differs(reason="off"), "eager", False),
    ],
    ids=["on the device", "not in a loop", "in a loop", "no loops", "wrong"],
)
def test_a_second_look_is_decided_by_the_score(
    finding: Finding, score: ScoredBy, beaten: bool
) -> None:
    look = JobResult(report=Report(finding=finding, timings_s={}))
    assert beats(look, ToBeat(0.6, score)) == beaten


@pytest.mark.parametrize(
    ("wall_ms", "others", "prepared_ms", "first_ms", "told"),
    [
        (1500.0, 2, 0.0, 1480.0, True),
        (90.0, 0, 0.0, 90.0, False),
        (105.0, 8, 0.0, 25.0, False),
        (90.0, 0, 1480.0, 1480.0, True),
    ],
    ids=["slow", "short", "others behind it", "prepared"],
)
def test_a_first_call_that_is_far_slower_is_told(
    wall_ms: float, others: int, prepared_ms: float, first_ms: float, told: bool
) -> None:
    notes: list[str] = []
    agreed = msgspec.structs.replace(AGREED, candidate_ms=10.0)
    found = with_first_call(agreed, FirstCall(wall_ms, others), prepared_ms, notes)
    assert found.first_call_ms == pytest.approx(first_ms)
    assert notes == (["its first call took 1480 ms, a warm one 10 ms"] if told else [])
