"""``engine eval``: verdicts without a search."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click
import msgspec

from engine.cli.exits import Exit, Failure
from engine.cli.inspect.inspect import emit
from engine.cli.run.isolation import isolation_options, refuse_option
from engine.cli.settings.layers import SettingsError, resolve
from engine.cli.source_files import read_candidate, read_task
from engine.cli.views.draw import (
    input_set_lines,
    loop_words,
    ms,
    printable,
    section_lines,
    worst_words,
)
from engine.cli.views.table import table_lines
from engine.cli.views.waiting import Waiting, waiting_for
from engine.config import Config
from events.observations import Observations
from events.outcomes import Correct, KernelResources, SetScore
from gpu_sandbox.api.evaluator import (
    BaselineRequest,
    EvaluationRequest,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
    Verdict,
)
from gpu_sandbox.api.progress import told_to
from projections.candidate.labels import labels_words
from projections.candidate.memory import memory_mark, memory_ratio
from projections.candidate.sections import Attempt

__all__ = ["InOrder", "Row", "eval_"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What ``engine eval --json`` prints for each candidate. ``not_judged`` is the outcome of one
    that needs what this machine lacks."""

    candidate: str
    outcome: str
    reason: str
    runtime_ms: float | None = None
    baseline_ms: float | None = None
    speedup: float | None = None
    bounded_speedup: float | None = None
    eager_speedup: float | None = None
    eager_low: float | None = None
    eager_high: float | None = None
    eager_ms: float | None = None
    eager_baseline_ms: float | None = None
    first_call_ms: float | None = None
    max_abs_error: float | None = None
    error: float | None = None
    error_bound: float | None = None
    trial: int | None = None
    labels: list[str] = []
    sets: list[SetScore] = []
    peak_bytes: int | None = None
    reference_peak_bytes: int | None = None
    memory_ratio: float | None = None
    isolation: list[str] = []
    timings_s: dict[str, float] = {}
    protocol: str
    device: str
    compile_log: str = ""
    run_log: str = ""
    notes: list[str] = []
    resources: list[KernelResources] = []
    observations: Observations | None = None


@click.command(name="eval")
@click.argument("task", type=click.Path(path_type=Path))
@click.argument("candidates", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--device", help="cpu, cuda:N, cuda:0,cuda:1 or auto.")
@click.option("--protocol",
              help="strict, strict-tf32, strict-bf16, verified, kernelbench or paper.")  # fmt: skip
@click.option("--sanitize", is_flag=True, default=None,
              help="Run what is faster than the reference in a sanitizer as well.")  # fmt: skip
@click.option("--autopsy", is_flag=True,
              help="Run what is wrong in a sanitizer as well, not only what crashed.")  # fmt: skip
@refuse_option
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE",
              help="Any configuration key, such as sandbox.run_timeout_s=30.")  # fmt: skip
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio",
              envvar="ENGINE_BACKEND", help="Which event loop to run on.")  # fmt: skip
@isolation_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a candidate.")
def eval_(
    task: Path, candidates: tuple[Path, ...], device: str | None, protocol: str | None,
    sanitize: bool | None, autopsy: bool, refuse: str | None, assignments: tuple[str, ...],
    backend: str, as_json: bool,
    require_isolation: str | None,
) -> int:  # fmt: skip
    """Judge each of CANDIDATES against the reference in TASK.

    A candidate's file defines ModelNew. Exit code 4 when none of them is correct, 3 when one
    could not be judged for want of something on this machine.
    """
    try:
        config = resolve(
            preset=None, file=None, environment=os.environ, assignments=list(assignments),
            flags={
                "sandbox.device": device, "sandbox.protocol": protocol,
                "sandbox.sanitize": sanitize, "sandbox.refuse": refuse,
                "sandbox.require_isolation": require_isolation,
            },
        )  # fmt: skip
    except SettingsError as error:
        raise Failure(str(error)) from error
    if autopsy and not config.sandbox.autopsy_timeout_s:
        raise Failure("--autopsy needs time: set sandbox.autopsy_timeout_s above 0")
    source = read_task(task)
    sources = {path: read_candidate(path) for path in candidates}

    async def work() -> list[Row]:
        return await _evaluate(config, task, source, sources, autopsy, as_json)

    rows = anyio.run(work, backend=backend)
    return Exit.DONE if any(row.outcome == "correct" for row in rows) else Exit.NOT_FASTER


async def _evaluate(
    config: Config, task: Path, task_source: str, sources: dict[Path, str],
    autopsy: bool, as_json: bool,
) -> list[Row]:  # fmt: skip
    from engine.cli.run.machine import open_sandbox, resolve_device
    from engine.loop.methods import observed_for

    judged: dict[int, Row] = {}
    waiting = waiting_for([path.name for path in sources])
    shown = InOrder(waiting)
    missing: list[PrerequisiteMissing] = []
    async with AsyncExitStack() as stack:
        sandbox = await open_sandbox(stack, config)
        config, _ = await resolve_device(sandbox, config)

        async def one(number: int, path: Path, source: str) -> None:
            request = EvaluationRequest(
                task_name=task.name, task_source=task_source, candidate_source=source,
                device=config.sandbox.device, protocol=config.sandbox.protocol, seed=0,
                observe=observed_for(config), refuse=tuple(config.sandbox.refuse),
                autopsy_of_wrong=autopsy, autopsy_yields=True,
            )  # fmt: skip
            waiting.stage(number, "being judged")
            try:
                with told_to(partial(waiting.stage, number)):
                    verdict = await sandbox.evaluate(request)
            except PrerequisiteMissing as error:  # for this one: others may need less
                missing.append(error)
                shown.add(number, partial(_print_unjudged, path, config, str(error), as_json))
            else:
                row = _row(path, verdict)
                judged[number] = row
                shown.add(number, partial(_print, row, verdict, as_json))
            waiting.done(number)

        failure: Exception | None = None
        try:
            # Compiles overlap; the sandbox itself takes turns at the device.
            with waiting.shown():
                async with anyio.create_task_group() as tasks:
                    for number, (path, source) in enumerate(sources.items()):
                        tasks.start_soon(one, number, path, source)
        except* (TaskUnusable, SandboxFault) as group:
            failure = group.exceptions[0]
            while isinstance(failure, ExceptionGroup):
                failure = failure.exceptions[0]
        shown.rest()
        if isinstance(failure, SandboxFault):
            # Mostly it is the task: then its baseline says what is wrong with it.
            try:
                await sandbox.baseline(
                    BaselineRequest(
                        task_name=task.name,
                        task_source=task_source,
                        seed=0,
                        device=config.sandbox.device,
                        protocol=config.sandbox.protocol,
                    )
                )
            except (PrerequisiteMissing, TaskUnusable, SandboxFault) as error:
                failure = error
        _raise(failure or next(iter(missing), None), task)
    rows = [judged[number] for number in sorted(judged)]
    if len(rows) > 1 and not as_json:
        click.echo("")
        for line in _ranked(rows):
            click.echo(line)
    return rows


class InOrder:
    """Prints results in the order given, each as soon as all before it are there."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._held: dict[int, Callable[[], None]] = {}
        self._next = 0

    def add(self, number: int, show: Callable[[], None]) -> None:
        """What shows the ``number``-th result."""
        self._held[number] = show
        if self._next in self._held:
            with self._waiting.hidden():
                while (ready := self._held.pop(self._next, None)) is not None:
                    self._next += 1
                    ready()

    def rest(self) -> None:
        """Where one has failed, those behind it."""
        for number in sorted(self._held):
            self._held.pop(number)()


def _ranked(rows: list[Row]) -> Iterator[str]:
    """A table of all, the fastest first and failures last, in the order given."""
    ranked = sorted(rows, key=lambda row: -(row.speedup or 0.0))
    yield from table_lines(
        ("candidate", "outcome", "speedup", "runtime", "labels"),
        [
            (
                row.candidate,
                row.outcome.replace("_", " "),
                "" if row.speedup is None else f"{row.speedup:.2f}×",
                "" if row.runtime_ms is None else ms(row.runtime_ms),
                ", ".join(row.labels),
            )
            for row in ranked
        ],
    )


def _raise(failure: Any, task: Path) -> None:
    match failure:
        case PrerequisiteMissing():
            raise Failure(str(failure), Exit.MISSING)
        case TaskUnusable():
            detail = f"\n{failure.detail}" if failure.detail else ""
            raise Failure(f"{task}: {failure.reason}{detail}")
        case SandboxFault():
            raise Failure(f"the sandbox failed: {failure}", Exit.INTERNAL)


def _row(path: Path, verdict: Verdict) -> Row:
    outcome = verdict.outcome
    correct = outcome if isinstance(outcome, Correct) else None
    return Row(
        candidate=str(path),
        outcome=str(outcome.__struct_config__.tag),
        reason=outcome.reason,
        runtime_ms=correct.runtime_ms if correct else None,
        baseline_ms=correct.baseline_ms if correct else None,
        speedup=correct.speedup if correct else None,
        bounded_speedup=correct.bounded_speedup if correct else None,
        eager_speedup=correct.eager_speedup if correct else None,
        eager_low=correct.eager_low if correct else None,
        eager_high=correct.eager_high if correct else None,
        eager_ms=correct.eager_ms if correct else None,
        eager_baseline_ms=correct.eager_baseline_ms if correct else None,
        first_call_ms=correct.first_call_ms if correct else None,
        max_abs_error=getattr(outcome, "max_abs_error", None),
        error=correct.error if correct else None,
        error_bound=correct.error_bound if correct else None,
        trial=getattr(outcome, "trial", None),
        labels=correct.labels if correct else [],
        sets=correct.sets if correct else [],
        peak_bytes=correct.peak_bytes if correct else None,
        reference_peak_bytes=correct.reference_peak_bytes if correct else None,
        memory_ratio=memory_ratio(correct.peak_bytes, correct.reference_peak_bytes)
        if correct
        else None,
        isolation=verdict.isolation,
        timings_s=verdict.timings_s,
        protocol=verdict.protocol,
        device=verdict.device,
        compile_log=verdict.compile_log,
        run_log=verdict.run_log,
        notes=verdict.notes,
        resources=verdict.resources,
        observations=verdict.observations,
    )


def _print_unjudged(path: Path, config: Config, why: str, as_json: bool) -> None:
    row = Row(
        candidate=str(path),
        outcome="not_judged",
        reason=why,
        protocol=config.sandbox.protocol,
        device=config.sandbox.device,
    )
    if as_json:
        emit(row)
    else:
        click.echo(f"{path}: not judged: {printable(why)}")


def _print(row: Row, verdict: Verdict, as_json: bool) -> None:
    if as_json:
        emit(row)
        return
    line = f"{row.candidate}: {row.outcome.replace('_', ' ')}"
    if row.speedup is not None and row.runtime_ms is not None and row.baseline_ms is not None:
        line += f", {ms(row.runtime_ms)} against {ms(row.baseline_ms)} eager: {row.speedup:.2f}×"
        worst = min(row.sets, key=lambda each: each.speedup, default=None)
        line += loop_words(row.eager_speedup) + worst_words(worst) + labels_words(row.labels)
        line += memory_mark(verdict.outcome)
    elif row.reason:
        line += f": {printable(row.reason)}"
    click.echo(line)
    for told in input_set_lines(verdict.outcome):
        click.echo(f"  {told}")
    for text in (row.compile_log, row.run_log):
        if text and row.outcome != "correct":
            click.echo("  " + printable(text).rstrip().replace("\n", "\n  "), err=True)
    attempt = Attempt(
        outcome=verdict.outcome,
        runtime_ms=row.runtime_ms,
        speedup=row.speedup,
        resources=verdict.resources,
        observations=verdict.observations,
    )
    for line in section_lines(attempt):
        click.echo(f"  {line}", err=True)
    for note in row.notes:
        click.echo(f"  note: {printable(note)}", err=True)
