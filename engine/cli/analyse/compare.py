"""``engine compare``: runs side by side, with the curves of their best so far."""

from __future__ import annotations

from collections.abc import Iterator

import click

from engine.cli.address import open_runs
from engine.cli.exits import Failure
from engine.cli.inspect.inspect import emit, json_option, summary_of
from engine.cli.views.draw import ms, value_text
from engine.cli.views.run_status import by_agents
from engine.cli.views.table import table_lines
from projections.candidate.labels import labels_listed
from projections.search.steps import Steps
from replay.compare import AXES, Axis, Compared, Comparison, best_at
from replay.compare import compare as compared

__all__ = ["compare"]

_AXES: dict[Axis, tuple[str, str]] = {
    "attempts": ("attempts", ".0f"), "cost_usd": ("dollars", ".4g"), "wall_s": ("seconds", ".4g"),
}  # fmt: skip
_COLUMNS = 6
_CHARS = 30
_LEVELS = ".:-=+*#%@"


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@json_option
def compare(logs: tuple[str, ...], as_json: bool) -> None:
    """Set the runs in each LOG side by side: results, and the best so far by attempts, by
    dollars and by seconds of work."""
    runs = []
    for opened in open_runs(logs):
        steps = Steps()
        for event in opened.reader.events(opened.run.run_id):
            steps.apply(event)
        runs.append((steps, summary_of(opened, steps.overview)))
    if len(runs) < 2:
        raise Failure(f"there is nothing to compare: {len(runs)} run in {', '.join(logs)}")
    found = compared(runs)
    if as_json:
        emit(found)
        return
    for line in comparison_lines(found):
        click.echo(line)


def comparison_lines(found: Comparison) -> Iterator[str]:
    """The comparison for people; runs are numbered as they were named."""
    for number, run in enumerate(found.runs, 1):
        canned = "  (canned replies)" if run.summary.canned else ""
        yield f"{number}  {run.summary.log}, run {run.summary.run}{canned}"
    if found.incomparable:
        what = ", ".join(key for key in found.incomparable if key != "task_sha256") or "task"
        yield ""
        yield f"NOT COMPARABLE: the runs differ in {what}. Their figures are of different things."
    yield from ("", *_results(found))
    if found.settings:
        names = ("setting", *map(str, range(1, len(found.runs) + 1)))
        rows = [(key, *map(value_text, values)) for key, values in found.settings.items()]
        yield from ("", *table_lines(names, rows))
    for axis in AXES:
        yield from _curves(found.runs, axis)


def _results(found: Comparison) -> Iterator[str]:
    bests = [one.summary.best for one in found.runs]
    labels = ["labels"] if any(best and best.labels for best in bests) else []
    loops = ["× in a loop"] if any(best and best.eager_speedup for best in bests) else []
    names = ("run", "status", "attempts", "compiled", "correct", "best", "runtime", "× eager",
             *loops, "dollars", "seconds", *labels)  # fmt: skip
    return table_lines(
        names,
        [
            (number, run.status, f"{run.attempts}{by_agents(run)}", run.compiled, run.correct,
             run.best.node if run.best else None, ms(run.best.runtime_ms) if run.best else None,
             round(run.best.speedup, 2) if run.best else None,
             *(round(run.best.eager_speedup, 2) if run.best and run.best.eager_speedup else None
               for _ in loops),
             f"{run.cost_usd:.4f}", round(run.wall_s, 1),
             *(labels_listed(run.best.labels if run.best else []) for _ in labels))
            for number, run in enumerate((one.summary for one in found.runs), 1)
        ],
    )  # fmt: skip


def _curves(runs: list[Compared], axis: Axis) -> Iterator[str]:
    name, form = _AXES[axis]
    most = max(getattr(run.summary, axis) for run in runs)
    top = max((step.speedup for run in runs for step in run.curve), default=0.0)
    if not most or not top:
        return
    at = [most * column / _COLUMNS for column in range(1, _COLUMNS + 1)]
    if axis == "attempts":
        at = sorted({float(round(place)) for place in at if round(place) > 0})
    yield from ("", f"best so far, × eager, by {name}", "")
    rows = []
    for number, run in enumerate(runs, 1):
        points = [best_at(run, axis, place) for place in at]
        shown = [None if point is None else round(point.speedup, 2) for point in points]
        rows.append((number, f"[{_spark(run, axis, most, top)}]", *shown))
    yield from table_lines(("run", "", *(format(place, form) for place in at)), rows)


def _spark(run: Compared, axis: Axis, most: float, top: float) -> str:
    """The curve in plain characters, from ``.`` to ``@`` at ``top``; a space is none yet, or
    no more."""
    points = [best_at(run, axis, most * (place + 1) / _CHARS) for place in range(_CHARS)]
    return "".join(
        " " if point is None else _LEVELS[int(point.speedup / top * (len(_LEVELS) - 1))]
        for point in points
    )
