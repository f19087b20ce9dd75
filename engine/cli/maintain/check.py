"""Checking: verify a log's integrity, save what is intact of it, examine the machine."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.address import log_errors, split
from engine.cli.exits import Exit, Failure
from engine.cli.inspect.inspect import emit, json_option
from events.recovery.recover import RunSaved, recover_log

__all__ = ["doctor", "recover", "verify"]


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
@click.option("--device", default="auto", help="Also try this device (cpu, cuda:0, auto).")
@json_option
def doctor(device: str, as_json: bool) -> None:
    """Check this machine. Exit code 3 when something that every run needs is missing."""
    from engine.cli.maintain.doctor_command import examine

    checks = examine(device)
    for check in checks:
        if as_json:
            emit(check)
        else:
            mark = "ok     " if check.ok else ("MISSING" if check.needed else "absent ")
            click.echo(f"{mark}  {check.name}: {check.detail}")
            if check.fix:
                click.echo(f"         → {check.fix}")
    if any(check.needed and not check.ok for check in checks):
        raise Failure("something that every run needs is missing", Exit.MISSING)
