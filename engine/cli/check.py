"""Checking: replay a search's decisions, verify a log's integrity, examine the machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from engine.cli.address import Opened, log_errors, open_run, split
from engine.cli.exits import Exit, Failure
from engine.cli.inspect import emit, json_option
from engine.cli.story import story
from events.errors import BlobRedacted
from events.recover import RunSaved, recover_log

if TYPE_CHECKING:
    from replay.prompts import PromptCheck

__all__ = ["doctor", "recover", "replay", "verify"]


@click.command()
@click.argument("log")
@json_option
def verify(log: str, as_json: bool) -> None:
    """Check LOG: hash chains, sequence, append-only guards, blobs. Exit code 5 if damaged."""
    from events.verify import verify_file

    path, _ = split(log)
    with log_errors():
        check = verify_file(path)
    if as_json:
        emit(check)
    else:
        for problem in check.problems:
            where = "" if problem.run_id is None else f"run {problem.run_id} "
            where += "" if problem.seq is None else f"event {problem.seq} "
            click.echo(f"{where or 'log '}{problem.what}")
        redacted = f" ({check.redacted} redacted)" if check.redacted else ""
        click.echo(
            f"{path}: {check.runs} runs, {check.events} events, {check.blobs} blobs{redacted}:"
            f" {'intact' if not check.problems else f'{len(check.problems)} problems'}",
            err=bool(check.problems),
        )
    if check.problems:
        if not as_json:
            click.echo(f"engine recover {path} -o NEW saves what is intact", err=True)
        raise click.exceptions.Exit(Exit.DIFFERENT)


@click.command()
@click.argument("log", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", "new", required=True, type=click.Path(path_type=Path),
    help="The log to make; there must be no file of this name.",
)  # fmt: skip
@json_option
def recover(log: Path, new: Path, as_json: bool) -> None:
    """Save what is intact of a damaged LOG into a new one, and say what was lost.

    Of each run that is everything up to the first event that is damaged or has lost a text.
    LOG is left as it is. Exit code 5 if anything was lost.
    """
    with log_errors():
        done = recover_log(log, new)
    if as_json:
        emit(done)
    else:
        for run in done.runs:
            click.echo(_saved(run))
        redacted = f" ({done.redacted} redacted)" if done.redacted else ""
        click.echo(f"{new}: {done.events} events, {done.blobs} blobs{redacted}")
    if not done.whole:
        raise click.exceptions.Exit(Exit.DIFFERENT)


def _saved(run: RunSaved) -> str:
    lines = [f"run {run.run_id} {run.uid}: {run.saved} events saved, {run.lost or 'none'} lost"]
    if run.rebuilt:
        lines.append("  its own row was damaged and is made again; its chain proves it")
    if run.why:
        lines.append(f"  {run.why}")
    if run.lost_seqs:
        lines.append(f"  lost by their number in the file: {_ranges(run.lost_seqs)}")
    if run.lost_blobs:
        lines.append(f"  lost blobs: {', '.join(sha[:12] for sha in run.lost_blobs)}")
    return "\n".join(lines)


def _ranges(numbers: list[int]) -> str:
    """``3, 5-9`` for 3, 5, 6, 7, 8, 9."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)


@click.command()
@click.argument("log")
@click.option(
    "--verify", "verifying", is_flag=True,
    help="Compare every decision with the logged one; exit code 5 at a difference.",
)  # fmt: skip
@json_option
def replay(log: str, verifying: bool, as_json: bool) -> None:
    """Run LOG's search again from its recorded replies and evaluations.

    Needs no network, no device and no model. Without --verify it tells the search step
    by step.
    """
    from engine.loop.methods import team_of
    from replay.verify import replay as run_again

    with open_run(log) as opened:
        run_id = opened.run.run_id
        prompts = _prompt_check(opened)

        def watch(state: object, event: object) -> None:
            if prompts is not None:
                prompts.watch(state, event)  # type: ignore[arg-type]
            line = story(event.body)  # type: ignore[attr-defined]
            if line and not verifying and not as_json:
                click.echo(f"{event.run_seq:>5}  {line}")  # type: ignore[attr-defined]

        report = run_again(opened.reader.events(run_id), team_of, watch=watch)
    difference = report.difference
    if as_json:
        emit(
            {
                "run": opened.run.uid,
                "events": report.events,
                "decisions": report.decisions,
                "digest": report.digest,
                "difference": difference,
                "prompts": prompts.rendered if prompts else None,
                "prompts_different": prompts.different if prompts else [],
            }
        )
    elif difference is not None:
        click.echo(_tell(difference), err=True)
    else:
        click.echo(
            f"{opened.name}: {report.decisions} decisions in {report.events} events agree,"
            f" digest {report.digest}"
        )
    if prompts is None and not as_json:
        click.echo("note: this log is redacted: its prompts were not compared", err=True)
    if prompts is not None and prompts.different and not as_json:
        click.echo(
            f"note: {len(prompts.different)} of {prompts.rendered} prompts would be worded"
            f" differently today (first: event {prompts.different[0]}); decisions do not"
            " depend on wording",
            err=True,
        )
    if difference is not None:
        raise click.exceptions.Exit(Exit.DIFFERENT)


def _prompt_check(opened: Opened) -> PromptCheck | None:
    """None for a redacted log: its decisions can be recomputed, its prompts can't."""
    from agents.templates import Templates
    from engine.loop.texts import Texts
    from replay.prompts import PromptCheck

    started = next(iter(opened.reader.events(opened.run.run_id, upto=1)), None)
    templates = getattr(started.body, "templates", {}) if started else {}
    try:
        texts = {name: opened.reader.text(sha) for name, sha in templates.items()}
    except BlobRedacted:
        return None
    return PromptCheck(Texts(opened.reader.text), Templates(texts=texts))


def _tell(difference: object) -> str:
    data = msgspec.to_builtins(difference)
    lines = [f"replay differs at event {data['run_seq']}:"]
    lines.append(f"  logged   {data['logged_type']}: {data['logged']}")
    lines.append(f"  computed {data['computed_type'] or 'no decision'}: {data['computed']}")
    if data["fields"]:
        lines.append(f"  fields   {', '.join(data['fields'])}")
    lines.append(
        f"  agreed up to event {data['last_agreeing_seq']}"
        f" (last state digest {data['last_agreeing_digest']})"
    )
    lines.append("  likely causes: another engine version, an edited log (engine verify tells)")
    return "\n".join(lines)


@click.command()
@click.option("--device", default="auto", help="Also try this device (cpu, cuda:0, auto).")
@json_option
def doctor(device: str, as_json: bool) -> None:
    """Check this machine. Exit code 3 when something that every run needs is missing."""
    from engine.cli.examine import examine

    checks = examine(device)
    for check in checks:
        if as_json:
            emit(check)
        else:
            mark = "ok     " if check.ok else ("MISSING" if check.needed else "absent ")
            click.echo(f"{mark}  {check.name}: {check.detail}")
            if not check.ok and check.fix:
                click.echo(f"         → {check.fix}")
    if any(check.needed and not check.ok for check in checks):
        raise Failure("something that every run needs is missing", Exit.MISSING)
