"""A whole search through the real loop and log, with agents and a sandbox that answer at once:
how fast its decisions are replayed, and how small its file is.

The agents' answers are kernels of this repository, each made unlike the others, so that
prompts are as long as real ones and nothing is stored once that would not be.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import msgspec

from agents.clients.port import Reply, Request
from agents.replies.anchors import BEGIN, END
from agents.templates import Templates, load
from benchmarks.table import Table
from engine.config import Budget, Config, Prompts, Search
from engine.core.state import State
from engine.loop.methods import team_of
from engine.loop.run import RunLoop
from engine.loop.start import run_started
from engine.loop.texts import Texts
from events.bodies import RunStarted, Usage
from events.outcomes import CompileFailed, Correct, Outcome
from events.reader import LogReader
from events.writer import LogWriter
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    DeviceLoad,
    EvaluationRequest,
    Verdict,
)
from replay.prompts import PromptCheck
from replay.verify import replay

__all__ = ["measure"]

_ROOT = Path(__file__).resolve().parents[1]
_ATTEMPTS = 200
_ROUNDS = 3


def measure(table: Table, scratch: Path) -> None:
    """Add the rows."""
    ratios, rates = [], []
    for number in range(_ROUNDS):
        table.progress(f"a search of {_ATTEMPTS} attempts, and its replay: {number + 1}")
        path = scratch / f"search_{number}.db"
        began = time.perf_counter()
        anyio.run(_search, path)
        live_s = time.perf_counter() - began
        began = time.perf_counter()
        decisions = _verify(path)
        verify_s = time.perf_counter() - began
        ratios.append(live_s / verify_s)
        rates.append(decisions / verify_s)
    table.row(
        "replay --verify / live stub search", "≥ 1",
        f"{median(ratios):.1f} ({median(rates):.0f} decisions a second)",
        table.verdict(median(ratios) >= 1),
    )  # fmt: skip
    size, inline = path.stat().st_size, _inline_bytes(path)
    table.row(
        "file of 200 attempts / the same JSON inline", "≤ 1/8",
        f"1/{inline / size:.1f} ({size / 1e6:.1f} of {inline / 1e6:.1f} MB)",
        table.verdict(8 * size <= inline),
    )  # fmt: skip


async def _search(path: Path) -> None:
    config = Config(
        model="stub:m",
        search=Search(workers=4),
        budget=Budget(attempts=_ATTEMPTS),
        prompts=Prompts(language="cpp"),
    )
    task = (_ROOT / "examples" / "softmax.py").read_text()
    async with LogWriter(path) as log:
        texts = Texts(_no_text)
        loop = RunLoop(
            log=log, run_id=log.create_run("search"), uid="search", state=State(team_of),
            texts=texts, templates=load(), clients={"stub:m": _Agents()}, evaluator=_Sandbox(),
        )  # fmt: skip
        first, blobs = run_started(
            config=config, task_name="softmax.py", task_source=task, device={"name": "stub"},
            canned=False, texts=texts,
        )  # fmt: skip
        await loop.run(first, blobs)


def _no_text(sha256: str) -> str:
    raise KeyError(sha256)


def _verify(path: Path) -> int:
    """What ``engine replay --verify`` does, prompts included."""
    with LogReader(path) as reader:
        started = next(reader.events(1)).body
        assert isinstance(started, RunStarted)
        prompts = PromptCheck(
            Texts(reader.text),
            Templates(texts={name: reader.text(sha) for name, sha in started.templates.items()}),
        )
        report = replay(reader.events(1), team_of, watch=prompts.watch)
        assert report.difference is None
        assert not prompts.different
        return report.decisions


def _inline_bytes(path: Path) -> int:
    """The same events as JSON lines, with their texts written where they are referred to."""
    size = 0
    with LogReader(path) as reader:
        for event in reader.events(1):
            texts = {name: reader.text(sha) for name, sha in reader.blob_names(event.seq)}
            size += len(msgspec.json.encode({"event": event, "texts": texts})) + 1
    return size


class _Agents:
    """Plans mark the whole of ``forward``; code and debug give the next kernel."""

    canned = False

    def __init__(self) -> None:
        self._kernels = [
            path.read_text() for path in sorted(_ROOT.glob("examples/playbooks/softmax_cpp/*.py"))
        ]
        self._sent = 0

    async def send(self, request: Request) -> Reply:
        self._sent += 1
        await anyio.lowlevel.checkpoint()
        if request.role == "plan":
            answer = {"advice": f"{self._sent}. {_ADVICE}", "annotated_source": _marked(request)}
        else:
            answer = {"explanation": f"{self._sent}. {_ADVICE}", "source": self._kernel()}
        return Reply(
            text="", tool_input=answer, usage=Usage(input_tokens=10, output_tokens=5),
            stop_reason="end_turn", served_by="stub", sent={"max_tokens": 5},
        )  # fmt: skip

    def _kernel(self) -> str:
        source = self._kernels[self._sent % len(self._kernels)]
        kind = ("ok", "ok", "broken")[self._sent % 3]
        # Other names throughout, as another answer of a model has them.
        renamed = re.sub(r"\b(row|out|acc|sum|max_\w*)\b", rf"\1_{self._sent:x}", source)
        return f'""" {kind} {self._sent} """\n{renamed}'

    async def aclose(self) -> None:
        pass


class _Sandbox:
    """A verdict at once, by a candidate's docstring."""

    async def baseline(self, request: BaselineRequest) -> Baseline:
        return Baseline(
            runtime_ms=10.0, spread=0.01, repetitions=5, timings_s={}, isolation=[],
            kind=request.kind, cached=False,
        )  # fmt: skip

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        await anyio.lowlevel.checkpoint()
        _, kind, number, *_ = request.candidate_source.split(maxsplit=3)
        return Verdict(
            outcome=_outcome(kind, int(number)), protocol="strict",
            timings_s={"compile": 21.5, "check": 0.25, "bench": 0.5}, queue_s=0.0, device="cpu",
            isolation=["namespaces", "landlock"], compile_log="" if kind == "ok" else _COMPILER,
        )  # fmt: skip

    def load(self) -> DeviceLoad:
        return DeviceLoad(
            compiling=0, waiting_to_compile=0, waiting_for_device=0, on_device=0, quarantined={}
        )

    async def fingerprint(self, device: str) -> dict[str, Any]:
        return {"kind": "cpu", "name": "stub"}


def _outcome(kind: str, number: int) -> Outcome:
    if kind != "ok":
        return CompileFailed(reason="no matching function for call to 'expand'")
    ratio = 1 / (1 + number % 97 / 20)
    return Correct(
        runtime_ms=10 * ratio, speedup=1 / ratio, ratio=ratio, ratio_low=ratio, ratio_high=ratio,
        pairs=20, candidate_ms=10 * ratio, baseline_ms=10.0,
    )  # fmt: skip


def _marked(request: Request) -> str:
    """The source with its last ``return`` between anchors."""
    lines = request.node_source.splitlines()
    at = max(n for n, line in enumerate(lines) if line.strip().startswith("return"))
    pad = " " * (len(lines[at]) - len(lines[at].lstrip()))
    lines[at : at + 1] = [f"{pad}# {BEGIN}", f"{pad}# {_ADVICE}", lines[at], f"{pad}# {END}"]
    return "\n".join(lines) + "\n"


_ADVICE = "Keep the row in registers from its maximum to its quotient; read it only once."
_COMPILER = """softmax.cpp: In function 'at::Tensor forward(const at::Tensor&)':
softmax.cpp:48:31: error: no matching function for call to 'expand(const float*, int64_t)'
   48 |   const float total = expand(px, n);
      |                       ~~~~~~^~~~~~~
softmax.cpp:17:21: note: candidate: 'float expand(float)'
"""
