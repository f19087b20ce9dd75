"""Defences of the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch, constant

__all__ = ["DEFENCES"]

_VERIFIER = "gpu_sandbox.verifier"
_LATE_S = 0.03
"""How long outputs lie before they are read, where nobody is stopped meanwhile."""


def _as_claimed(_: Any) -> Any:
    return lambda claim, *_, **__: (claim, "")


def _running_on(_: Any) -> Any:
    """The clock stops when an answer has come, and what was computed is read a while later."""
    from gpu_sandbox.confine import freeze
    from gpu_sandbox.verifier.worker_link import client

    class Running(freeze.Frozen):
        def used_ns(self) -> int:
            return 0

    @contextmanager
    def stopped(self: Any) -> Iterator[Any]:
        if self._processes is None:
            yield client._NO_PROCESSES
            return
        found, _ = self._processes._seen()
        used = {pid: freeze._used_ns(pid) for pid in found}
        still = Running(used, self._processes._seen, time.perf_counter_ns())
        time.sleep(_LATE_S)
        yield still

    return stopped


def _the_first_ones(draw: Any) -> Any:
    """Inputs that were drawn once, for all batches of one kind."""

    def draw_once(self: Any, purpose: str, index: int) -> None:
        if not hasattr(self, "_once"):
            draw(self, purpose, index)
            self._once = self.cases, self.unusual
        self.cases, self.unusual = self._once

    return draw_once


class _Whatever:
    """Of a digest that is not looked at."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _plain_secret(init: Any) -> Any:
    def known(self: Any, seed: int) -> None:
        init(self, seed)
        self._key = str(seed).encode()

    return known


DEFENCES = (
    Defence(
        name="wall-time bound",
        module="verifier/timing/claim_rules.py",
        threats=("C1", "C2"),
        patches=(Patch(f"{_VERIFIER}.timing.score:decide", _as_claimed),),
        bites=(Bite("patched_harness_clock"), Bite("shaved_messages")),
    ),
    Defence(
        name="frozen while outputs are read and the other side is timed",
        module="confine/freeze.py",
        threats=("C3", "C7"),
        patches=(Patch(f"{_VERIFIER}.worker_link.client:Peer.stopped", _running_on),),
        bites=(
            Bite("answers_before_its_call", also_off=("wall-time bound",)),
            Bite("answers_beside_its_call", also_off=("wall-time bound",)),
        ),
    ),
    Defence(
        name="digest of plain values",
        module="verifier/worker_link/digests.py",
        threats=("C3",),
        patches=(Patch(f"{_VERIFIER}.timing.cpu_call:digest_of", constant(_Whatever())),),
        bites=(Bite("numbers_that_come_later"),),
    ),
    Defence(
        name="both sides keep freed memory",
        module="runtime/malloc_settings.py",
        threats=("C5",),
        patches=(Patch("gpu_sandbox.worker.main:keep_freed_memory", constant(None)),),
        bites=(Bite("tells_libc_to_keep_memory"),),
    ),
    Defence(
        name="mapped pages are charged",
        module="verifier/worker_link/page_map.py",
        threats=("C6",),
        patches=(Patch(f"{_VERIFIER}.worker_link.client:Peer.mapped_bytes", constant(0)),),
        bites=(
            Bite("maps_zeros"),
            Bite("maps_what_is_constant"),
            Bite("maps_rows_of_a_table"),
            Bite("maps_rows_as_outputs"),
        ),
    ),
    Defence(
        name="disturbance is charged",
        module="verifier/timing/baseline_drift.py",
        threats=("C7",),
        patches=(
            Patch(f"{_VERIFIER}.timing.baseline_drift:BaselineDrift.disturbance", constant(1.0)),
        ),
        bites=(
            Bite("cuda_burns_the_device"),
            Bite("cuda_resident_kernel"),
        ),
    ),
    Defence(
        name="fresh inputs in timed calls",
        module="verifier/timing/batches.py",
        threats=("C9",),
        patches=(Patch(f"{_VERIFIER}.timing.batches:Batches.draw", _the_first_ones),),
        bites=(
            Bite("skips_from_call_k"),
            Bite("skips_one_call_in_four"),
        ),
    ),
    Defence(
        name="outputs of timed calls are compared",
        module="verifier/timing/pairing.py",
        threats=("C11", "K5"),
        patches=(Patch(f"{_VERIFIER}.timing.pairing:Pairing._check", constant(None)),),
        bites=(
            Bite("coarse_when_timed"),
            Bite("unchecked_when_random"),
            Bite("all_but_one_row"),
            Bite("leaves_the_scores_out_when_timed"),
            Bite("mutates_inputs_when_timed"),
        ),
    ),
    Defence(
        name="the task is audited",
        module="verifier/trials/task_audit.py",
        threats=("C9", "A2"),
        patches=(Patch(f"{_VERIFIER}.task_memo:audit", constant([])),),
        bites=(Bite("zeros_where_the_task_is_zero", "no note calls the task degenerate"),),
    ),
    Defence(
        name="seeds under a secret",
        module="verifier/reference/cases.py",
        threats=("C18",),
        patches=(Patch(f"{_VERIFIER}.reference.cases:Seeds.__init__", _plain_secret),),
        bites=(Bite("recovers_the_seed", "GAINED: the seed is 7"),),
    ),
)
