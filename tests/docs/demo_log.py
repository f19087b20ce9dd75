"""The log of ``make demo`` in seconds: its playbook and the real loop, with verdicts made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from agents.clients.playbook import PlaybookClient
from agents.templates import Templates, load
from engine.cli.settings.layers import resolve
from engine.config import Config
from engine.core.state import State
from engine.loop.methods import team_of
from engine.loop.run import RunLoop
from engine.loop.start import forked, recover, run_started
from engine.loop.texts import Texts
from events.outcomes import CompileFailed, Correct, Outcome, WrongResult
from events.reader import LogReader
from events.writer import LogWriter
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    DeviceLoad,
    EvaluationRequest,
    Verdict,
)
from tests.docs.pages import ROOT

__all__ = ["fork_demo_log", "write_demo_log"]

ATTEMPTS = 14
_BASELINE_MS = 10.0
_PLAYBOOK = "examples/playbooks/elementwise_chain_cpp.toml"
_MODEL = f"playbook:{_PLAYBOOK}"
_TASK = ROOT / "examples" / "elementwise_chain.py"


class _ByName:
    """Judges the playbook's kernels by the names of their files."""

    def __init__(self) -> None:
        kernels = ROOT / _PLAYBOOK.removesuffix(".toml")
        self._names = {path.read_text(): path.stem for path in kernels.glob("*.py")}

    async def baseline(self, request: BaselineRequest) -> Baseline:
        return Baseline(
            runtime_ms=_BASELINE_MS, spread=0.01, repetitions=5, timings_s={}, isolation=[]
        )

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        return Verdict(
            outcome=_outcome(self._names[request.candidate_source]), protocol="strict",
            timings_s={"compile": 1.0, "bench": 0.5, "lease": 0.6}, queue_s=0.0, device="cpu",
            isolation=[],
        )  # fmt: skip

    def load(self) -> DeviceLoad:
        return DeviceLoad(
            compiling=0, waiting_to_compile=0, waiting_for_device=0, on_device=0, quarantined={}
        )

    async def fingerprint(self, device: str) -> dict[str, Any]:
        return {"kind": "cpu", "name": "made up"}


def _outcome(kernel: str) -> Outcome:
    if kernel.startswith("broken"):
        return CompileFailed(reason="expected initializer before ‘float’")
    if kernel.startswith("wrong"):
        return WrongResult(reason="relative L2 error 2.58e-01, allowed 2.00e-05")
    speedup = {"naive": 0.2, "fixed_compile": 0.25, "fused": 4.5}.get(kernel, 4.0)
    ratio = 1 / speedup
    return Correct(
        runtime_ms=_BASELINE_MS * ratio, speedup=speedup, ratio=ratio, ratio_low=0.9 * ratio,
        ratio_high=1.1 * ratio, pairs=20, candidate_ms=_BASELINE_MS * ratio,
        baseline_ms=_BASELINE_MS,
    )  # fmt: skip


def write_demo_log(path: Path) -> None:
    anyio.run(_write, path)


def fork_demo_log(path: Path, at: int, **settings: Any) -> None:
    """Fork its first run, with settings by their key paths."""
    anyio.run(_fork, path, at, settings)


async def _write(path: Path) -> None:
    async with LogWriter(path) as log:
        texts = Texts(_not_asked)
        run_id = log.create_run("5cab014626971612")
        first, blobs = run_started(
            config=_resolve({}), task_name=_TASK.name, task_source=_TASK.read_text(),
            device={"kind": "cpu", "name": "made up"}, canned=True, texts=texts,
        )  # fmt: skip
        await _loop(log, run_id, State(team_of), texts, load()).run(first, blobs)


async def _fork(path: Path, at: int, settings: dict[str, Any]) -> None:
    async with LogWriter(path) as log:
        with LogReader(path) as reader:
            parent = reader.runs()[0]
            found = recover(reader, parent.run_id, upto=at)
            *_, last = reader.events(parent.run_id, upto=at)
            first = forked(
                found.state, {}, parent=parent.uid, at=at, config=_resolve(settings),
                changed=settings, replies="live", evaluations="anew", canned=True,
            )  # fmt: skip
            run_id = log.fork(parent.run_id, last, f"fork-at-{at}")
            templates = Templates(texts=found.templates)
            await _loop(log, run_id, found.state, Texts(reader.text), templates).run(first)


def _resolve(settings: dict[str, Any]) -> Config:
    flags = {"model": _MODEL, "budget.attempts": ATTEMPTS, "prompts.language": "cpp", **settings}
    return resolve(preset=None, file=None, environment={}, assignments=[], flags=flags)


def _loop(log: LogWriter, run_id: int, state: State, texts: Texts, templates: Templates) -> RunLoop:
    return RunLoop(
        log=log, run_id=run_id, uid=str(run_id), state=state, texts=texts, templates=templates,
        clients={_MODEL: PlaybookClient(ROOT / _PLAYBOOK)}, evaluator=_ByName(),
    )  # fmt: skip


def _not_asked(sha256: str) -> str:
    raise AssertionError(f"{sha256} should still be in memory")
