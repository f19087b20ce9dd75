"""An evaluator without processes: verdicts by source, for tests of whatever uses one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from events.outcomes import NoCandidate, Outcome
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    DeviceLoad,
    EvaluationRequest,
    PrerequisiteMissing,
    Verdict,
)


class FakeSandbox:
    """Scripted: ``outcomes`` by candidate source, exceptions among them are raised.

    ``default`` answers any other source. ``delay_s`` is slept under the device's lock,
    so concurrency, queues and cancellation behave as with the real one. ``requests``
    keeps what was asked.
    """

    def __init__(
        self,
        outcomes: Mapping[str, Outcome | Exception] | None = None,
        *,
        default: Outcome | None = None,
        baseline: Baseline | Mapping[str, Baseline | Exception] | None = None,
        runtime_ms: float = 1.0,
        delay_s: float = 0.0,
        devices: tuple[str, ...] = ("cpu",),
    ) -> None:
        self.outcomes = dict(outcomes or {})
        self.default = default or NoCandidate(reason="not in the script")
        self.baselines = baseline
        self.runtime_ms = runtime_ms
        self.delay_s = delay_s
        self.devices = devices
        self.requests: list[EvaluationRequest | BaselineRequest] = []
        self._lock: anyio.Lock | None = None
        self._waiting = 0
        self._holding = 0

    async def baseline(self, request: BaselineRequest) -> Baseline:
        self._require(request.device)
        self.requests.append(request)
        await self._on_device()
        scripted = self.baselines
        if isinstance(scripted, Mapping):
            found = scripted.get(request.task_source)
            if isinstance(found, Exception):
                raise found
            scripted = found
        return scripted or Baseline(
            runtime_ms=self.runtime_ms,
            spread=0.01,
            repetitions=100,
            timings_s={"check": 0.0, "bench": 0.0, "lease": 0.0},
            isolation=["fake"],
        )

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        self._require(request.device)
        self.requests.append(request)
        await self._on_device()
        outcome = self.outcomes.get(request.candidate_source, self.default)
        if isinstance(outcome, Exception):
            raise outcome
        return Verdict(
            outcome=outcome,
            protocol=request.protocol,
            timings_s={"guard": 0.0, "compile": 0.0, "check": 0.0, "bench": 0.0, "lease": 0.0},
            queue_s=0.0,
            device=request.device,
            isolation=["fake"],
        )

    def load(self) -> DeviceLoad:
        return DeviceLoad(
            compiling=0,
            waiting_to_compile=0,
            waiting_for_device=self._waiting,
            on_device=self._holding,
        )

    async def fingerprint(self, device: str) -> dict[str, Any]:
        self._require(device)
        return {
            "kind": "cpu",
            "name": "fake",
            "cores": 2,
            "vector_bits": 256,
            "isa": "avx2",
            "torch": "0",
            "cuda": None,
        }

    def _require(self, device: str) -> None:
        if device not in self.devices:
            raise PrerequisiteMissing(f"no device {device!r}")

    async def _on_device(self) -> None:
        self._lock = self._lock or anyio.Lock()
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        self._holding += 1
        try:
            await anyio.sleep(self.delay_s)
        finally:
            self._holding -= 1
            self._lock.release()
