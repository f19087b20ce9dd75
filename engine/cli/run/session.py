"""One process's work on a run: everything is opened, the loop driven, everything closed."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import click
import msgspec

from agents.clients.turns import Turns
from agents.templates import Templates, load
from engine.cli.address import log_errors
from engine.cli.exits import Exit, Failure
from engine.cli.run.clients import check_mailboxes, open_clients
from engine.cli.run.machine import check_language, open_sandbox, prerequisites, resolve_device
from engine.cli.run.resumable import check_goes_on, check_resumable
from engine.cli.run.retired_models import fork_instead
from engine.cli.views.draw import resume_line
from engine.cli.views.late_reader import LateReader
from engine.cli.views.progress import open_display
from engine.config import Config
from engine.core.state import State
from engine.loop.forecast import Forecast, forecast, forecast_rest
from engine.loop.methods import team_of
from engine.loop.run import RunLoop
from engine.loop.start import Recovered, prices_today, recover, resumed, run_started
from engine.loop.steering import listen
from engine.loop.texts import Texts
from events.bodies import Body
from events.envelope import Blob
from events.errors import LogError, WriterFailed
from events.reader import LogReader, RunRow
from events.writer import LogWriter
from gpu_sandbox.api.evaluator import Evaluator
from gpu_sandbox.backends.known import backend_named
from gpu_sandbox.toolchain.hf_cache import require_models
from projections.run.overview import Overview, overview_of
from replay.recorded import out_of_log

__all__ = ["Done", "Start", "at_work", "drive", "go_on", "search"]

Confirm = Callable[[Config, bool, Forecast], None]
"""Told the configuration, whether replies are canned, and what may be used; may refuse."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A new run, resolved. ``given`` is the source in ``search.start``. ``confirm`` is asked once
    the device is known."""

    config: Config
    task: Path
    task_source: str
    given: str | None
    log: Path
    display: str
    confirm: Confirm


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """How the process's work ended. ``name`` is how the command line writes the run."""

    overview: Overview
    state: State
    name: str
    uid: str

    @property
    def resume_line(self) -> str:
        """What to type to go on; where the mailbox moved, that has to be said again."""
        return resume_line(self.name, self.overview.mail.moved)


def at_work(work: Callable[[Turns], Awaitable[Done]], backend: str) -> Done:
    """Have the process do ``work``, in an event loop of its own, and give it the turns at
    providers that all runs of the process take. Raises ``Failure``."""

    async def begin() -> Done:
        return await work(Turns())

    with log_errors():
        return anyio.run(begin, backend=backend)


async def search(start: Start, turns: Turns) -> Done:
    """Run a new search. Raises ``Failure`` and ``LogError``."""
    attempts = start.config.budget.attempts - (start.given is not None)
    async with AsyncExitStack() as stack:
        # First what is known at once: the sandbox takes seconds to say what it finds.
        clients = await open_clients(
            stack, start.config, asked=attempts > 0, instead="name a served model with --model"
        )
        check_language(start.config)
        with prerequisites():
            require_models(start.task_source)
        sandbox = await open_sandbox(stack, start.config)
        config, device = await resolve_device(sandbox, start.config)
        check_language(config)
        with prerequisites():
            backend_named(config.sandbox.device).builds.require()
        expected = forecast(
            config, load(), task_source=start.task_source, device=device,
            prices=prices_today(config), attempts=attempts,
        )  # fmt: skip
        canned = any(client.canned for client in clients.values())
        start.confirm(config, canned, expected)
        log = await stack.enter_async_context(LogWriter(start.log))
        uid = secrets.token_hex(8)
        run_id = log.create_run(uid)
        reader = stack.enter_context(LateReader(start.log))
        texts = Texts(reader.text)
        first, blobs = run_started(
            config=config, task_name=start.task.name, task_source=start.task_source,
            device=device, canned=canned, texts=texts, estimates=expected.estimates,
            given=start.given,
        )  # fmt: skip
        loop = RunLoop(
            log=log, run_id=run_id, uid=uid, state=State(team_of), texts=texts,
            templates=load(), clients=clients, evaluator=sandbox, wait_s=config.clients.wait_s,
            turns=turns,
        )  # fmt: skip
        name = str(start.log) if run_id == 1 else f"{start.log}#{run_id}"
        done = Done(overview=Overview(), state=loop.state, name=name, uid=uid)
        return await drive(loop, first, blobs, done, start.display, sandbox)


async def go_on(
    path: Path,
    run: str | None,
    turns: Turns,
    *,
    extra: Mapping[str, int],
    require_isolation: str | None,
    mailbox: Path | None,
    wait_s: float | None,
    display: str,
    confirm: Confirm,
) -> Done:
    """Resume a run. ``extra`` is added to its budgets, by the names that ``RunResumed`` has for
    it without ``extra_``. Raises ``Failure`` and ``LogError``."""
    before = _resumable(path, run, extra)
    row, recovered, overview = before.row, before.recovered, before.overview
    state, config = recovered.state, recovered.state.config
    check_mailboxes(config, state.attempts.values(), mailbox)
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(LogWriter(path))
        reader = stack.enter_context(LogReader(path))
        if reader.newest_run_seq(row.run_id) != before.newest:
            raise Failure(f"{path}: another process wrote it just now; try again")
        if require_isolation is not None:
            config = _isolated(config, require_isolation)
        assert state.started is not None
        templates = Templates(texts=recovered.templates)
        name = str(path) if len(reader.runs()) == 1 else f"{path}#{row.run_id}"
        expected = forecast_rest(
            state, config, templates, reader.text(state.started.task_sha256),
            attempts=state.granted.attempts + extra["attempts"],
        )  # fmt: skip
        recorded = overview.fork is not None and overview.fork.replies == "recorded"
        clients = await open_clients(
            stack, config, state.attempts.values(), asked=expected.attempts > 0, mailbox=mailbox,
            instead=None if recorded else fork_instead(config, name, before.newest),
            so_far=lambda: (event.body for event in reader.events(row.run_id)),
        )  # fmt: skip
        sandbox = await open_sandbox(stack, config)
        _, device = await resolve_device(sandbox, config)
        confirm(config, any(client.canned for client in clients.values()), expected)
        verdicts = None
        if overview.fork is not None:
            clients, verdicts = out_of_log(
                reader, clients, run=row.run_id,
                parent=reader.find_run(overview.fork.parent).run_id,
                replies=overview.fork.replies, evaluations=overview.fork.evaluations,
            )  # fmt: skip
        loop = RunLoop(
            log=log, run_id=row.run_id, uid=row.uid, state=state, texts=Texts(reader.text),
            recorded=verdicts, templates=templates, clients=clients, evaluator=sandbox,
            mail=recovered.mail, wait_s=config.clients.wait_s if wait_s is None else wait_s,
            turns=turns,
        )  # fmt: skip
        first = resumed(
            device, worked_ms=before.worked_ms, require_isolation=require_isolation,
            mailbox=None if mailbox is None else str(mailbox), unsent=recovered.unsent,
            extra=extra,
        )  # fmt: skip
        done = Done(overview=overview, state=state, name=name, uid=row.uid)
        return await drive(loop, first, [], done, display, sandbox)


class _Resumable(msgspec.Struct, frozen=True):
    """A run that can go on, as its log has it; ``newest`` is its last event."""

    row: RunRow
    recovered: Recovered
    overview: Overview
    newest: int

    @property
    def worked_ms(self) -> int:
        return self.overview.wall_us // 1000


def _resumable(path: Path, run: str | None, extra: Mapping[str, int]) -> _Resumable:
    """What the log itself refuses is refused before it is opened for writing. Raises
    ``Failure``."""
    with log_errors(path), LogReader(path) as reader:
        row = reader.find_run(run)
        found = _Resumable(
            row=row,
            recovered=recover(reader, row.run_id),
            overview=overview_of(reader.events(row.run_id)),
            newest=reader.newest_run_seq(row.run_id),
        )
        check_resumable(found.recovered.state, path, extra)
        if found.recovered.state.stopped in ("finished", "exhausted"):
            check_goes_on(recover(reader, row.run_id), path, extra, found.worked_ms)
    return found


def _isolated(config: Config, require: str) -> Config:
    sandbox = msgspec.structs.replace(config.sandbox, require_isolation=require)
    return msgspec.structs.replace(config, sandbox=sandbox)


async def drive(
    loop: RunLoop, first: Body, blobs: list[Blob], begun: Done, display: str, sandbox: Evaluator
) -> Done:
    """Run the loop with its display and its signal handling. Raises ``Failure``, ``LogError``.

    ``begun`` has the overview of the events so far.
    """
    overview = begun.overview
    shown = open_display(display, overview, sandbox.load)
    loop.observe(shown.observe)
    failure: LogError | None = None
    with shown.shown():
        async with anyio.create_task_group() as watching:
            watching.start_soon(_stop_on_signals, loop, begun)
            watching.start_soon(shown.keep_fresh)
            watching.start_soon(listen, loop, begun.uid)
            try:
                await loop.run(first, blobs)
            except LogError as error:
                failure = error  # raised below: a task group would wrap it in a group
            watching.cancel_scope.cancel()
    if isinstance(failure, WriterFailed):
        raise Failure(
            f"{failure}\nEverything acknowledged before is kept. Mend the cause, then:"
            f" {begun.resume_line}",
            Exit.MISSING,
        )
    if failure is not None:
        raise failure
    return msgspec.structs.replace(begun, state=loop.state)


async def _stop_on_signals(loop: RunLoop, begun: Done) -> None:
    """The first signal ends the run cleanly, a second one at once: the log bears both."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            if loop.stop_requested:
                click.echo(f"interrupted. Go on with: {begun.resume_line}", err=True)
                os._exit(Exit.INTERRUPTED)
            loop.request_stop(signal.Signals(number).name)
