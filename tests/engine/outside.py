"""A scripted outside for the real loop: agents that answer at once, a sandbox that judges
by what the source says. Deterministic, so that a resumed run can be compared."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import anyio
import msgspec

from agents.clients.port import CallFailed, Reply, Request
from events.bodies import Usage
from events.outcomes import CompileFailed, Correct, Outcome, WrongResult
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    DeviceLoad,
    EvaluationRequest,
    NoDeviceLeft,
    SandboxFault,
    Verdict,
)

TASK = '''"""Double a vector."""
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x + x


def get_inputs():
    return [torch.rand(1000)]


def get_init_inputs():
    return []
'''


class ScriptedClient:
    """Plans always anchor the line with ``return``; code's speed comes from its visit."""

    canned = False

    def __init__(self, *, fail: Counter[str] | None = None, unusable: int = 0) -> None:
        self.sent: list[Request] = []
        self.fail = fail or Counter()
        self.unusable = unusable

    async def send(self, request: Request) -> Reply:
        self.sent.append(request)
        await anyio.lowlevel.checkpoint()
        if self.fail[request.role] > 0:
            self.fail[request.role] -= 1
            raise CallFailed("overloaded", "busy", retryable=True, retry_after_s=0.001)
        if self.unusable > 0:
            self.unusable -= 1
            return self._reply("I would rather not.", None)
        if request.role == "plan":
            return self._reply("", {"advice": "go faster", "annotated_source": _anchor(request)})
        return self._reply("", {"explanation": "done", "source": self._candidate(request)})

    def _candidate(self, request: Request) -> str:
        kind = ("ok", "broken", "wrong", "ok")[(request.visit + len(request.node_source)) % 4]
        if request.role == "debug":
            kind = "ok"
        return (
            f'""" {kind} {len(self.sent)}..."""\n'
            "import torch\n\n\nclass ModelNew(torch.nn.Module):\n"
            "    def forward(self, x):\n        return 2 * x\n"
        )

    @staticmethod
    def _reply(text: str, tool_input: dict[str, Any] | None) -> Reply:
        return Reply(
            text=text, tool_input=tool_input, usage=Usage(input_tokens=10, output_tokens=5),
            stop_reason="end_turn", served_by="scripted", sent={"max_tokens": 5},
        )  # fmt: skip

    async def aclose(self) -> None:
        pass


def _anchor(request: Request) -> str:
    out = []
    for line in request.node_source.splitlines():
        if line.strip().startswith("return") and "self" not in line:
            pad = line[: len(line) - len(line.lstrip())]
            out += [f"{pad}# <<<IMPROVE BEGIN>>>", line, f"{pad}# <<<IMPROVE END>>>"]
        else:
            out.append(line)
    return "\n".join(out) + "\n"


class ScriptedEvaluator:
    """Judges a candidate by the words in it; ``faults`` sandbox faults come first, or so many
    times the ``odd`` one. Until ``together`` evaluations were under way at once, each waits for
    that."""

    def __init__(
        self,
        *,
        faults: int = 0,
        odd: Exception | None = None,
        lost: str = "",
        together: int = 1,
    ) -> None:
        self.faults = faults
        self.odd = odd
        self.lost = lost
        """Why its only device is quarantined, if it is."""
        self.judged: list[str] = []
        self.baselines: list[str] = []
        self.busy = 0
        self.most_busy = 0
        self._together = together
        self._met: anyio.Event | None = None

    async def baseline(self, request: BaselineRequest) -> Baseline:
        self.baselines.append(request.kind)
        measured = Baseline(
            runtime_ms=10, spread=0.01, repetitions=5, timings_s={}, isolation=[],
            kind=request.kind, cached=self.baselines.count(request.kind) > 1,
        )  # fmt: skip
        if request.kind == "eager":
            return measured
        await anyio.sleep(0.002)
        if request.kind == "max-autotune" and self.baselines.count("max-autotune") == 1:
            raise SandboxFault("too little shared memory")
        return msgspec.structs.replace(
            measured, runtime_ms=5.0, spread=None, outcome=_outcome("ok", 1)
        )

    async def _meet(self) -> None:
        self._met = self._met or anyio.Event()  # a loop has to run where one is made
        if self.most_busy >= self._together:
            self._met.set()
        with anyio.fail_after(60):
            await self._met.wait()

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        await self._meet()
        await anyio.sleep(0.001)
        self.busy -= 1
        if self.faults > 0:
            self.faults -= 1
            raise self.odd or SandboxFault("the device went away")
        if self.lost:
            raise NoDeviceLeft(f"no device is left: cpu: {self.lost}")
        self.judged.append(request.candidate_source)
        found = re.search(r"\b(ok|broken|wrong) (\d+)", request.candidate_source)
        assert found is not None
        kind, number = found.groups()
        return Verdict(
            outcome=_outcome(kind, int(number)), protocol="strict", timings_s={"bench": 0.001},
            queue_s=0.0, device="cpu", isolation=[], compile_log=f"log {number}",
        )  # fmt: skip

    def load(self) -> DeviceLoad:
        return DeviceLoad(
            compiling=0, waiting_to_compile=0, waiting_for_device=0, on_device=self.busy,
            quarantined={"cpu": self.lost} if self.lost else {},
        )  # fmt: skip

    async def fingerprint(self, device: str) -> dict[str, Any]:
        return {"kind": "cpu", "name": "scripted"}


def _outcome(kind: str, number: int) -> Outcome:
    if kind == "broken":
        return CompileFailed(reason="expected ';'")
    if kind == "wrong":
        return WrongResult(reason="off by one")
    runtime = 10 / (1 + number % 7)
    return Correct(
        runtime_ms=runtime, speedup=10 / runtime, ratio=runtime / 10, ratio_low=0.1,
        ratio_high=1.0, pairs=20, candidate_ms=runtime, baseline_ms=10.0,
    )  # fmt: skip
