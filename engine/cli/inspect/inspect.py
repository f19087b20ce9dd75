"""``engine ls``, ``status``, ``tree``, ``prompt`` and ``best``: views of logs, read-only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from engine.cli.address import Opened, log_errors, open_run
from engine.cli.exits import Exit, Failure
from engine.cli.inspect.at_position import at_option, events_until, load
from engine.cli.views.draw import (
    CANNED,
    for_stdout,
    json_line,
    loop_words,
    printable,
    tree_lines,
    use_color,
)
from engine.cli.views.run_status import best_line, otherwise_line, status_lines
from events.bodies import AgentCalled, PromptRendered
from events.errors import BlobRedacted, LogError
from events.lock import holder
from events.reader import LogReader
from projections.candidate.labels import degenerate_lines, labels_words
from projections.run.overview import Overview
from projections.run.summary import Summary
from projections.search.tree import Node

__all__ = ["best", "find_node", "ls", "prompt", "status", "tree"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


def emit(value: object) -> None:
    """One JSON object on a line of stdout."""
    click.echo(json_line(value))


def summary_of(opened: Opened, overview: Overview, *, past: bool = False) -> Summary:
    """The summary, with what only the file system knows: whether somebody writes the log.

    ``past``: it is of an earlier moment, when the run was still running.
    """
    reader = opened.reader
    newest = reader.newest_epoch() == reader.newest_epoch(opened.run.run_id)
    # Another run of the same file may be the one that is being written.
    alive = newest and holder(reader.path) is not None
    return overview.summary(run=opened.run.uid, log=opened.name, writer_alive=alive or past)


@click.command()
@click.argument("directory", default="runs", type=click.Path(file_okay=False, path_type=Path))
@json_option
def ls(directory: Path, as_json: bool) -> None:
    """List the runs in the logs below DIRECTORY (default: runs), oldest first."""
    if not directory.is_dir():
        raise Failure(f"{directory}: no such directory")
    written: dict[Path, float] = {}
    for path in directory.rglob("*.db"):
        with suppress(OSError):  # it has gone since
            written[path] = path.stat().st_mtime
    for path in sorted(filter(Path.is_file, written), key=written.__getitem__):
        try:
            with LogReader(path) as reader:
                runs = [Opened(reader, run, f"{path}#{run.run_id}") for run in reader.runs()]
                rows = [(opened, load(opened)) for opened in runs]
                for opened, overview in rows:
                    _ls_row(opened, overview, as_json, alone=len(rows) == 1)
        except LogError as error:
            click.echo(f"engine: {error}", err=True)


def _ls_row(opened: Opened, overview: Overview, as_json: bool, *, alone: bool) -> None:
    summary = summary_of(opened, overview)
    if as_json:
        emit(summary)
        return
    task = overview.started.task_name if overview.started else "?"
    speedup = f"{summary.best.speedup:6.2f}×" if summary.best else "      –"
    name = str(opened.reader.path) if alone else opened.name
    labels = labels_words(summary.best.labels) if summary.best else ""
    canned = "  (canned replies)" if summary.canned else ""
    if summary.fork is not None:
        canned += f"  (fork of {summary.fork.parent} at {summary.fork.at})"
    if summary.best:
        speedup += loop_words(summary.best.eager_speedup)
    click.echo(
        f"{name}  {task}  {summary.status:<11}  {summary.attempts:>3} attempts  {speedup}"
        f"  ${summary.cost_usd:.2f}{labels}{canned}"
    )


@click.command()
@click.argument("log")
@at_option
@json_option
def status(log: str, at: int | None, as_json: bool) -> None:
    """How the run in LOG stands."""
    with open_run(log) as opened:
        overview = load(opened, at)
        summary = summary_of(opened, overview, past=at is not None)
        hints = {n: _hint(opened, sha) for n, sha in overview.steering.stands().hints.items()}
    if as_json:
        emit(summary)
    else:
        for line in status_lines(overview, summary, hints):
            click.echo(line)


def _hint(opened: Opened, sha256: str) -> str:
    try:
        return opened.reader.text(sha256)
    except BlobRedacted:
        return "(redacted)"


@click.command()
@click.argument("log")
@at_option
@json_option
def tree(log: str, at: int | None, as_json: bool) -> None:
    """Draw the search tree of LOG; with --json, one node a line."""
    with open_run(log) as opened:
        overview = load(opened, at)
    if as_json:
        for node in overview.tree.nodes.values():
            emit(node)
        return
    if overview.started and overview.started.canned:
        click.echo(CANNED, err=True)
    for line in tree_lines(overview, color=use_color()):
        click.echo(line)


def find_node(overview: Overview, number: int) -> Node:
    """The node. Raises ``Failure`` for one that the run does not have."""
    if number not in overview.tree.nodes:
        there = f"0 to {max(overview.tree.nodes)}" if overview.tree.nodes else "none"
        raise Failure(f"no node {number}: up to event {overview.run_seq} the run has {there}")
    return overview.tree[number]


@click.command()
@click.argument("log")
@click.argument("node", type=int)
@click.argument("role", type=click.Choice(["plan", "code", "debug", "single"]))
@click.option("--ask", type=int, default=None, help="Which asking: 0 is the first (default: last).")
@at_option
@json_option
def prompt(log: str, node: int, role: str, ask: int | None, at: int | None, as_json: bool) -> None:
    """Show the prompt that ROLE got for attempt NODE of LOG, as it was sent."""
    with open_run(log) as opened:
        calls: dict[tuple[int, int], AgentCalled] = {}
        chosen: tuple[AgentCalled, PromptRendered, tuple[str, ...]] | None = None
        for event in events_until(opened, at):
            body = event.body
            if isinstance(body, AgentCalled) and body.attempt == node and body.role == role:
                calls[body.call, body.try_] = body
            elif isinstance(body, PromptRendered) and (body.call, body.try_) in calls:
                called = calls[body.call, body.try_]
                if ask is None or called.ask == ask:
                    chosen = called, body, event.blobs
        if chosen is None:
            raise Failure(f"no {role} prompt was sent for attempt {node}")
        called, rendered, blobs = chosen
        parts = [
            {"name": name, "text": opened.reader.text(sha)}
            for name, sha in zip(rendered.parts, blobs, strict=True)
        ]
    if as_json:
        emit({"called": called, "request_sha256": rendered.request_sha256, "parts": parts})
        return
    click.echo(
        f"call {called.call} to {printable(called.model)}, window {called.window} of {called.pool}",
        err=True,
    )
    for part in parts:
        click.echo(f"=== {part['name']} ===\n{printable(part['text'])}\n")


@click.command()
@click.argument("log")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the kernel's file here instead of printing it.")  # fmt: skip
@at_option
@json_option
def best(log: str, output: Path | None, at: int | None, as_json: bool) -> None:
    """Print the source of LOG's best kernel. Exit code 4 when there is none.

    Which speedup it is the best by, search.score, and what is better by the other one is told on
    stderr.

    If the task is degenerate, which its label says, stderr says first why that is no success.
    """
    with open_run(log) as opened, log_errors():
        overview = load(opened, at)
        summary = summary_of(opened, overview, past=at is not None)
        if summary.best is None:
            raise Failure(f"{opened.name}: no correct kernel", Exit.NOT_FASTER)
        source = opened.reader.text(summary.best.source_sha256)
    if output is not None:
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(source)
        except OSError as error:
            raise Failure(f"{output}: {error.strerror}") from error
    if as_json:
        emit({"best": summary.best, "output": None if output is None else str(output),
              "otherwise": overview.best_otherwise})  # fmt: skip
    elif output is None:
        click.echo(for_stdout(source), nl=False)
    judged = overview.evaluations.get(summary.best.node)
    for line in degenerate_lines(summary.best.labels, judged.notes if judged else []):
        click.echo(click.style(printable(line), bold=True), err=True)
    if not as_json:
        click.echo(best_line(summary), err=True)
        if (other := overview.best_otherwise) is not None:
            click.echo(otherwise_line(summary.best, other), err=True)
        if summary.canned:
            click.echo(CANNED, err=True)
