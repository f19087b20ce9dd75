"""``engine report``: what became of a run, in Markdown that reads well in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from engine.cli.address import Opened, open_runs
from engine.cli.exits import Failure
from engine.cli.inspect.at_position import at_option, events_until
from engine.cli.inspect.inspect import emit, json_option, summary_of
from engine.cli.inspect.marked_edits import edits_in
from engine.cli.views.draw import CANNED, ms, percent, printable, saved_line, taken_line
from engine.cli.views.run_status import best_line, given_line, pool_lines, signature_lines
from engine.cli.views.table import table_lines
from projections.candidate.labels import labels_listed
from projections.candidate.memory import size_words
from projections.run.report import Ranked, Report, ReportFold
from projections.run.team import models_words
from projections.search.failures import FailureClass
from projections.search.instructions import Fidelity

__all__ = ["report"]

_PLACES = 10


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the Markdown here instead of printing it.")  # fmt: skip
@at_option
@json_option
def report(logs: tuple[str, ...], output: Path | None, at: int | None, as_json: bool) -> None:
    """What became of the runs in each LOG: funnel, leaderboard, spend, failures, time."""
    if output is not None and output.suffix in (".html", ".htm"):
        raise Failure(f"{output}: a report is Markdown: name a .md file")
    if output is not None and as_json:
        raise Failure("--json prints to stdout: leave -o out, or redirect it")
    reports = [_made(opened, at) for opened in open_runs(logs)]
    if as_json:
        for made in reports:
            emit(made)
        return
    text = "\n\n".join("\n".join(report_lines(made)) for made in reports) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise Failure(f"{output}: {error.strerror}") from error


def _made(opened: Opened, at: int | None) -> Report:
    fold = ReportFold()
    for event in events_until(opened, at):
        fold.apply(event)
    summary = summary_of(opened, fold.overview, past=at is not None)
    return fold.report(summary, edits_in(opened, fold.overview.tree))


def plain(text: str) -> str:
    """Words from outside as Markdown that says just them: no HTML, no link, no image, no code."""
    return re.sub(r"[\\`<\[\]]", r"\\\g<0>", printable(text))


def report_lines(made: Report) -> Iterator[str]:
    """The report as Markdown."""
    summary = made.summary
    yield f"# {plain(made.task) or 'a run without events'}"
    yield ""
    reason = f" ({plain(summary.reason)})" if summary.reason else ""
    yield f"run {summary.run} of {summary.log}, {summary.status}{reason}, on {made.device}"
    yield f"asked: {plain(models_words(made.models))}"
    if summary.canned:
        yield f"**{CANNED}**"
    if summary.given is not None:
        yield f"start: {plain(given_line(summary.given))}"
    yield f"best: {best_line(summary)}"
    if summary.audit is not None:
        yield f"the task, audited: {'; '.join(map(plain, summary.audit)) or 'nothing found'}"
    if taken := taken_line(summary):
        yield f"not judged: {taken}"
    for title, lines in (
        ("Funnel", _funnel(made)),
        ("New bests", _steps(made)),
        ("Leaderboard", _leaderboard(made.leaderboard)),
        ("Set apart: the task is degenerate", _leaderboard(made.degenerate)),
        ("Spend by role", _spend(made)),
        ("Planners", _planners(made)),
        ("Failures of candidates", _failures(made.failures)),
        ("Calls without a usable reply", _failures(made.call_failures)),
        ("Failure signatures", (f"- {line}" for line in signature_lines(made.signatures))),
        ("Code-synthesis fidelity", _fidelity(made.fidelity)),
        ("Time by stage", _stages(made)),
    ):
        shown = list(lines)
        if shown:
            yield from ("", f"## {title}", "", *shown)


def _funnel(made: Report) -> Iterator[str]:
    names = ("", "attempts", "proposed", "compiled", "correct", "faster than eager")
    by_agents = "all by agents" if "user" in made.funnel else "all"
    counts = [
        (
            by_agents if way == "all" else way,
            *(f.attempts, f.proposed, f.compiled, f.correct, f.faster),
        )
        for way, f in made.funnel.items()
    ]
    return table_lines(names, counts)


def _rounded(speedup: float | None) -> float | None:
    return None if speedup is None else round(speedup, 2)


def _steps(made: Report) -> Iterator[str]:
    measured = any(step.eager_speedup is not None for step in made.steps)
    loops = ["× in a loop"] if measured else []
    if made.steps:
        known = {place.node: place.labels for place in (*made.leaderboard, *made.degenerate)}
        labels = ["labels"] if any(known.get(step.node) for step in made.steps) else []
        yield from table_lines(
            ("attempts", "dollars", "seconds", "node", "runtime", "× eager", *loops, *labels),
            [
                (step.attempts, f"{step.usd_micros / 1e6:.4f}", round(step.wall_s, 1),
                 step.node, ms(step.runtime_ms), round(step.speedup, 2),
                 *(_rounded(step.eager_speedup) for _ in loops),
                 *(labels_listed(known.get(step.node, [])) for _ in labels))
                for step in made.steps
            ],
        )  # fmt: skip


def _leaderboard(places: list[Ranked]) -> Iterator[str]:
    if not places:
        return
    others = [kind for kind in places[0].speedups if kind != "eager"]
    shown = places[:_PLACES]
    labels = ["labels"] if any(place.labels for place in shown) else []
    loops = ["× in a loop"] if any(place.eager_speedup is not None for place in shown) else []
    worst = ["worst input set"] if any(place.worst_set is not None for place in shown) else []
    memory = ["memory, reference"] if any(p.peak_bytes is not None for p in shown) else []
    yield from table_lines(
        ("rank", "node", "from", "made by", "runtime", "× eager", "95 % interval",
         *loops, *(f"× {kind}" for kind in others), *worst, *memory, *labels),
        [
            (place.rank, place.node, place.parent, place.made, ms(place.runtime_ms),
             round(place.speedup, 2), f"{1 / place.ratio_high:.2f}–{1 / place.ratio_low:.2f}",
             *(_rounded(place.eager_speedup) for _ in loops),
             *(round(place.speedups[kind], 2) for kind in others),
             *(_worst(place) for _ in worst), *(_memory(place) for _ in memory),
             *(labels_listed(place.labels) for _ in labels))
            for place in shown
        ],
    )  # fmt: skip
    if len(places) > _PLACES:
        yield f"and {len(places) - _PLACES} more correct ones"


def _worst(place: Ranked) -> str:
    worst = place.worst_set
    return "" if worst is None else f"{worst.speedup:.2f}× on {printable(worst.name)}"


def _memory(place: Ranked) -> str:
    """Peaks, candidate's and reference's, and their ratio where there is one."""
    sizes = [
        "–" if size is None else size_words(size)
        for size in (place.peak_bytes, place.reference_peak_bytes)
    ]
    ratio = "" if place.memory_ratio is None else f" ({place.memory_ratio:.2g}×)"
    return f"{', '.join(sizes)}{ratio}"


def _spend(made: Report) -> Iterator[str]:
    if made.spend:
        yield from table_lines(
            ("role", "calls", "input tokens", "output tokens", "dollars", "unpriced calls",
             "calls without usage"),
            [
                (role, spent.calls, spent.input_tokens, spent.output_tokens,
                 f"{spent.usd_micros / 1e6:.4f}", spent.unpriced_calls, spent.uncounted_calls)
                for role, spent in made.spend.items()
            ],
        )  # fmt: skip
    if made.prices:
        yield from ("", f"prices: {plain(made.prices)}")
    if made.summary.saved_tokens_estimate:
        yield from ("", f"saved: {saved_line(made.summary)}")


def _planners(made: Report) -> Iterator[str]:
    if len(made.planners) < 2:
        return
    yield from table_lines(
        ("model", "pulls", "mean reward", "dollars", "tokens", "reward per dollar",
         "reward per million tokens"),
        [
            (plain(model), arm.pulls, _digits(arm.mean_reward, ".2f"), _digits(arm.cost_usd, ".4f"),
             _digits(arm.tokens, "d"), _digits(arm.reward_per_usd, ".4g"),
             _digits(arm.reward_per_mtok, ".4g"))
            for model, arm in made.planners.items()
        ],
    )  # fmt: skip


def _failures(classes: list[FailureClass]) -> Iterator[str]:
    if classes:
        yield from table_lines(
            ("failure", "count", "nodes", "reason"),
            [
                (known.failure.replace("_", " "), known.count,
                 ", ".join(map(str, known.nodes[:6])) + (" …" if len(known.nodes) > 6 else ""),
                 plain(known.pattern))
                for known in classes
            ],
            longest=120,
        )  # fmt: skip


def _fidelity(found: Fidelity | None) -> Iterator[str]:
    if found is None:
        return
    given, lines = found.instructions, found.lines_inside + found.lines_outside
    yield from table_lines(
        ("measure", "value", "out of"),
        [
            ("first-pass success", percent(found.first_pass_rate),
             f"{found.first_pass} of {given} instructions; {found.repaired} more by a repair,"
             f" {found.unrealised} not"),
            ("debug repair rate", percent(found.repair_rate),
             f"{found.mended} of {found.repairs} repairs"),
            ("attempts per instruction", _digits(found.attempts_per_instruction, ".2f"),
             f"{found.attempts} attempts"),
            ("edits inside anchors", percent(found.inside_share),
             f"{found.lines_inside} of {lines} lines; {found.lines_allowed} more are allowed"),
            ("grounded", percent(found.grounded_rate),
             f"{found.grounded} of {found.compared} candidates"),
        ],
        longest=80,
    )  # fmt: skip


def _digits(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _stages(made: Report) -> Iterator[str]:
    if made.stages:
        rows = [(s.stage, round(s.seconds, 2), f"{100 * s.share:.0f} %") for s in made.stages]
        yield from table_lines(("stage", "seconds", "share"), rows)
    if made.summary.pool is not None:
        yield ""
        yield from pool_lines(made.summary.pool)
