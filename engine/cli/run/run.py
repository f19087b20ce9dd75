"""``engine run`` and ``engine resume``."""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from agents.clients.known import FORMS
from agents.languages import LANGUAGES
from engine.cli.address import log_errors, split
from engine.cli.exits import Exit, Failure
from engine.cli.inspect.inspect import emit
from engine.cli.run.confirm import confirm
from engine.cli.run.isolation import isolation_options, refuse_option
from engine.cli.settings.layers import PRESETS, SettingsError, resolve
from engine.cli.source_files import read_kernel, read_task
from engine.cli.views.draw import CANNED, printable, resume_line, tree_lines, use_color
from engine.cli.views.run_status import awaited_lines, best_line, fork_line

__all__ = ["finish", "resume", "run", "shared"]

wait_option = click.option(
    "--wait", "wait_s", type=click.FloatRange(min=0), metavar="SECONDS",
    help="Wait so long for replies of a mailbox or batch before the run pauses.",
)  # fmt: skip

Command = Callable[..., Any]


def shared(command: Command) -> Command:
    """The options that run and resume have in common."""
    options = [
        click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio",
                     envvar="ENGINE_BACKEND", help="Which event loop to run on."),
        click.option("--display", type=click.Choice(["auto", "live", "plain", "json", "none"]),
                     default="auto", envvar="ENGINE_DISPLAY", help="Progress on stderr."),
        click.option("--json", "as_json", is_flag=True,
                     help="Print one JSON object on stdout at the end, and nothing else."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return isolation_options(command)


@click.command()
@click.argument("task", type=click.Path(path_type=Path))
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="TOML file.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE",
              help="Any configuration key, such as search.epsilon=0.4.")  # fmt: skip
@click.option("--preset", type=click.Choice(list(PRESETS)), help="A named set of settings.")
@click.option("--method", help="stark, sampling, reflexion, search_agent or ma_only.")
@click.option("--model", help=f"For every role: {FORMS}.")
@click.option("--language", help=f"{', '.join(LANGUAGES)}; auto goes with the device.")
@click.option("--device", help="cpu, cuda:N, cuda:0,cuda:1 or auto.")
@click.option("--protocol",
              help="strict, strict-tf32, strict-bf16, verified, kernelbench or paper.")  # fmt: skip
@click.option("--sanitize", is_flag=True, default=None,
              help="Run what would be the best in a sanitizer as well.")  # fmt: skip
@refuse_option
@click.option("--baselines", metavar="KINDS",
              help="What to time the reference as: eager,compile,max-autotune.")  # fmt: skip
@click.option("--attempts", type=int, help="How many candidates to try (B).")
@click.option("--workers", type=int, help="Attempts in flight (k).")
@click.option("--budget-usd", type=float, help="Begin nothing that would go beyond this spend.")
@click.option("--budget-tokens", type=int, help="The same in tokens, to and from models.")
@click.option("--budget-device-s", type=float, help="The same in seconds of leased devices.")
@click.option("--budget-wall-s", type=float, help="The same in seconds at work.")
@click.option("--target-speedup", type=float, help="Stop when the best is this much faster.")
@click.option("--patience", type=int, help="Stop after so many attempts without a new best.")
@click.option("--start", metavar="KERNEL", help="A kernel of yours, to be the first attempt.")
@click.option("--seed", type=int, help="Seed of every draw.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), envvar="ENGINE_LOG",
              help="The log's file; a new one below runs/ by default.")  # fmt: skip
@wait_option
@click.option("--yes", is_flag=True, help="Do not ask before paid calls.")
@shared
def run(
    task: Path, file: Path | None, assignments: tuple[str, ...], preset: str | None,
    method: str | None, model: str | None, language: str | None, device: str | None,
    protocol: str | None, sanitize: bool | None, refuse: str | None, baselines: str | None,
    attempts: int | None,
    workers: int | None, budget_usd: float | None, budget_tokens: int | None,
    budget_device_s: float | None, budget_wall_s: float | None, target_speedup: float | None,
    patience: int | None, start: str | None, seed: int | None, log: Path | None,
    wait_s: float | None, yes: bool, backend: str, display: str, as_json: bool,
    require_isolation: str | None,
) -> int:  # fmt: skip
    """Search for a faster version of the module in TASK (KernelBench form)."""
    from engine.cli.run.session import Start, at_work, search

    try:
        config = resolve(
            preset=preset,
            file=file,
            environment=os.environ,
            assignments=list(assignments),
            flags={
                "search.method": method, "model": model, "prompts.language": language,
                "sandbox.device": device, "sandbox.protocol": protocol,
                "sandbox.sanitize": sanitize, "sandbox.refuse": refuse,
                "sandbox.baselines": baselines,
                "sandbox.require_isolation": require_isolation,
                "budget.attempts": attempts, "search.workers": workers,
                "budget.usd": budget_usd, "budget.tokens": budget_tokens,
                "budget.device_s": budget_device_s, "budget.wall_s": budget_wall_s,
                "budget.target_speedup": target_speedup,
                "budget.patience": patience, "search.start": start, "search.seed": seed,
                "clients.wait_s": wait_s,
            },
        )  # fmt: skip
    except SettingsError as error:
        raise Failure(str(error)) from error
    source = read_task(task)
    given = None if config.search.start is None else read_kernel(Path(config.search.start))
    begun = Start(
        config=config, task=task, task_source=source, given=given, log=log or _new_log(task),
        display=display, confirm=lambda *expected: confirm(*expected, yes=yes),
    )  # fmt: skip
    _make_folder(begun.log)
    return finish(at_work(partial(search, begun), backend), as_json)


@click.command()
@click.argument("log")
@click.option("--attempts", default="+0", metavar="+N", help="Add N attempts to the budget.")
@click.option("--budget-usd", default="+0", metavar="+USD", help="Add to the dollar budget.")
@click.option("--budget-tokens", default="+0", metavar="+N", help="Add to the token budget.")
@click.option("--budget-device-s", default="+0", metavar="+S", help="Add device time.")
@click.option("--budget-wall-s", default="+0", metavar="+S", help="Add wall time.")
@click.option("--mailbox", type=click.Path(file_okay=False, path_type=Path),
              envvar="ENGINE_MAILBOX",
              help="Where the run's mailbox is now, if it moved.")  # fmt: skip
@wait_option
@click.option("--yes", is_flag=True, help="Do not ask before paid calls.")
@shared
def resume(
    log: str, attempts: str, budget_usd: str, budget_tokens: str, budget_device_s: str,
    budget_wall_s: str, mailbox: Path | None, wait_s: float | None, yes: bool, backend: str,
    display: str, as_json: bool, require_isolation: str | None,
) -> int:  # fmt: skip
    """Go on with the run in LOG: no reply that the log holds is paid for again."""
    from engine.cli.run.session import at_work, go_on

    extra = {
        "attempts": _added("--attempts", attempts, int),
        "usd_micros": round(_added("--budget-usd", budget_usd, float) * 1_000_000),
        "tokens": _added("--budget-tokens", budget_tokens, int),
        "device_ms": round(_added("--budget-device-s", budget_device_s, float) * 1000),
        "wall_ms": round(_added("--budget-wall-s", budget_wall_s, float) * 1000),
    }
    path, name = split(log)
    if not path.is_file():
        raise Failure(f"{path}: no such log")
    work = partial(
        go_on, path, name, extra=extra, display=display, require_isolation=require_isolation,
        mailbox=mailbox, wait_s=wait_s, confirm=lambda *expected: confirm(*expected, yes=yes),
    )  # fmt: skip
    newest = _newest(path, name)
    try:
        done = at_work(work, backend)
    except (click.Abort, KeyboardInterrupt):
        # What was to be added is to be added still, unless the log has it.
        again = shlex.join(["engine", *sys.argv[1:]])
        if _newest(path, name) != newest:
            again = resume_line(log, None if mailbox is None else str(mailbox))
        raise Failure(f"interrupted. Go on with: {again}", Exit.INTERRUPTED) from None
    return finish(done, as_json)


def _newest(path: Path, run: str | None) -> int:
    """The run's newest event."""
    from events.reader import LogReader

    with log_errors(), LogReader(path) as reader:
        return reader.newest_run_seq(reader.find_run(run).run_id)


def _new_log(task: Path) -> Path:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^\w.-]+", "-", task.stem)
    path = Path("runs") / f"{name}-{stamp}.db"
    count = 1
    while path.exists():
        count += 1
        path = path.with_name(f"{name}-{stamp}-{count}.db")
    return path


def _make_folder(log: Path) -> None:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{log.parent}: {error.strerror}") from error


def _added(option: str, text: str, type_: Callable[[str], Any]) -> Any:
    try:
        value = type_(text.removeprefix("+"))
    except ValueError as error:
        raise Failure(f"{option} {text}: write +N") from error
    if not math.isfinite(value) or value < 0:
        raise Failure(f"{option} {text}: can only add")
    return value


def finish(done: Any, as_json: bool) -> int:
    """Print the result and say how the run ended by the exit code."""
    overview, state = done.overview, done.state
    summary = overview.summary(run=done.uid, log=done.name, writer_alive=True)
    if as_json:
        emit(summary)
    else:
        for line in tree_lines(overview, color=use_color()):
            click.echo(line)
        click.echo(f"\nbest: {best_line(summary)}")
        if summary.fork is not None:
            click.echo(f"fork: {fork_line(summary.fork)}")
        if summary.canned:
            click.echo(CANNED)
        click.echo(f"log:  {done.name}")
    go_on = f"Go on with: {done.resume_line}"
    if state.paused:
        click.echo(f"paused: {printable(state.paused)}", err=True)
        from engine.cli.run.resumable import shorter_lines

        for line in shorter_lines(state, done.name, overview.run_seq):
            click.echo(line, err=True)
        for line in awaited_lines(summary):
            click.echo(f"  {line}", err=True)
        click.echo(go_on, err=True)
        return Exit.MISSING if state.unauthorized else Exit.PAUSED
    match state.stopped:
        case "interrupted":
            click.echo(f"interrupted. {go_on}", err=True)
            return Exit.INTERRUPTED
        case "failed":
            raise Failure(f"the task was rejected: {state.stop_reason}")
    faster = summary.best is not None and summary.best.scored > 1
    return Exit.DONE if faster else Exit.NOT_FASTER
