"""A verdict of ``engine eval``: as data, as lines of text, and all of them in a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from engine.cli.inspect.inspect import emit
from engine.cli.views.draw import (
    input_set_lines,
    loop_words,
    ms,
    printable,
    section_lines,
    worst_words,
)
from engine.cli.views.table import table_lines
from engine.config import Config
from events.observations import Observations
from events.outcomes import Correct, KernelResources, SetScore
from gpu_sandbox.api.evaluator import Verdict
from projections.candidate.labels import labels_words
from projections.candidate.memory import memory_mark, memory_ratio
from projections.candidate.sections import Attempt

__all__ = ["Row", "print_unjudged", "print_verdict", "ranked_lines", "row_of"]


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


def row_of(path: Path, verdict: Verdict) -> Row:
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


def print_unjudged(path: Path, config: Config, why: str, as_json: bool) -> None:
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


def print_verdict(row: Row, verdict: Verdict, as_json: bool) -> None:
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
    for score in input_set_lines(verdict.outcome):
        click.echo(f"  {score}")
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


def ranked_lines(rows: list[Row]) -> Iterator[str]:
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
