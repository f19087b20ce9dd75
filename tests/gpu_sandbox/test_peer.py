"""What becomes of a side that does not lie still while the other one is timed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, cast

import pytest
import torch

from gpu_sandbox.confine.freeze import Frozen, Unstoppable
from gpu_sandbox.ipc.framing import Channel, PeerGone
from gpu_sandbox.ipc.verifier_messages import Finding, Forged, WorkerDied, WorkerSilent
from gpu_sandbox.ipc.worker_messages import Describe, Done, Ran, Request
from gpu_sandbox.verifier.timing.batches import Settings, TimedBatch
from gpu_sandbox.verifier.timing.pairing import Pairing
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded

MUCH_NS, LITTLE_NS = 2_000_000, 900_000


def stopped_but_for(used_ns: int) -> Frozen:
    still = Frozen({}, lambda: (set(), set()), 0)
    still.used_ns = lambda: used_ns  # type: ignore[method-assign]
    return still


class Processes:
    """In the place of ``Stoppable``: what is used while they are stopped, or what that raises."""

    found: int | Exception = 0

    def __init__(self, pid: int) -> None:
        assert pid > 0

    @contextmanager
    def stopped(self) -> Iterator[Frozen]:
        found = self.found
        if isinstance(found, Exception):
            raise found
        yield stopped_but_for(found)

    def close(self) -> None:
        pass


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Peer]]:
    """Makes sides whose processes are as said."""
    monkeypatch.setattr("gpu_sandbox.verifier.worker_link.client.Stoppable", Processes)
    with ExitStack() as stack:

        def make(found: int | Exception, *, reference: bool = False) -> Peer:
            monkeypatch.setattr(Processes, "found", found)
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            stack.enter_context(theirs)
            return Peer(ours, 1, torch.device("cpu"), 1.0, reference=reference)

        yield make


def stop(peer: Peer) -> Finding | None:
    """What it ends as, if it does."""
    try:
        with peer.stopped() as still:
            peer.used_while(still)
            return None
    except (Ended, ReferenceEnded) as ended:
        return ended.finding


def test_who_is_often_at_work_while_stopped_is_rejected(peer: Callable[..., Peer]) -> None:
    candidate = peer(MUCH_NS)
    assert [stop(candidate) for _ in range(3)] == [None] * 3, "it may have had to wait with that"
    found = stop(candidate)
    assert isinstance(found, Forged)
    assert "can't be stopped" in found.reason


@pytest.mark.parametrize(("used_ns", "reference"), [(LITTLE_NS, False), (MUCH_NS, True)])
def test_who_leaves_the_processor_late_is_not_and_nor_is_the_reference(
    peer: Callable[..., Peer], used_ns: int, reference: bool
) -> None:
    side = peer(used_ns, reference=reference)
    assert [stop(side) for _ in range(20)] == [None] * 20


@pytest.mark.parametrize(
    ("raised", "finding"),
    [
        (Unstoppable(), Forged),
        (ProcessLookupError(), WorkerDied),
        (FileNotFoundError(), WorkerDied),
    ],
)
def test_who_can_not_be_stopped_ends_the_evaluation(
    peer: Callable[..., Peer], raised: Exception, finding: type[Finding]
) -> None:
    assert isinstance(stop(peer(raised)), finding)
    with pytest.raises(ReferenceEnded), peer(raised, reference=True).stopped():
        raise AssertionError("it was not stopped")


class Side:
    def __init__(self, used_ns: int) -> None:
        self._used_ns = used_ns

    @contextmanager
    def stopped(self) -> Iterator[Frozen]:
        yield stopped_but_for(self._used_ns)

    def used_while(self, still: Frozen) -> int:
        return still.used_ns()


class OneRelease:
    def run(self, peer: Peer, settings: Settings, seed: int, chosen: list[int]) -> TimedBatch:
        return TimedBatch(1, 2, 0, [], Ran(tree=None, leaves=[]))


def test_a_release_tells_what_the_other_side_used_meanwhile() -> None:
    candidate, reference = cast(Peer, Side(7)), cast(Peer, Side(11))
    nothing = cast(Any, None)
    pairing = Pairing(nothing, reference, candidate, nothing, nothing, cast(Clocks, nothing))
    for _ in range(8):  # in either order
        pair = pairing._run_pair(cast(Any, OneRelease()), Settings(), [])
        assert (pair.baseline.other_side_ns, pair.candidate.other_side_ns) == (7, 11)


def _answer_slowly(sock: socket.socket, each_s: float) -> None:
    channel: Channel[Request] = Channel(sock, Request)
    with suppress(PeerGone, OSError):
        while True:
            channel.receive()
            time.sleep(each_s)
            channel.send(Done())


@pytest.mark.parametrize("reference", [False, True], ids=["candidate", "reference"])
def test_answers_that_are_each_in_time_may_be_too_slow_together(
    monkeypatch: pytest.MonkeyPatch, *, reference: bool
) -> None:
    """Or a device is held for as long as there are calls. The reference takes what it takes."""
    monkeypatch.setattr("gpu_sandbox.verifier.worker_link.client.Stoppable", Processes)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        side = Peer(ours, 1, torch.device("cpu"), 0.2, reference=reference)
        threading.Thread(target=_answer_slowly, args=(theirs, 0.1), daemon=True).start()
        answers, found = 0, None
        with suppress(Ended):
            try:
                for _ in range(9):
                    side.ask(Describe(), Done, "run")
                    answers += 1
            except Ended as ended:
                found = ended.finding
                raise
        theirs.shutdown(socket.SHUT_RDWR)
    if reference:
        assert answers == 9
    else:
        assert 2 <= answers <= 5
        assert found == WorkerSilent(stage="run", limit_s=3 * 0.2, together=True)
