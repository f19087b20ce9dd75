"""``engine fork``: a new run that shares another's events up to a point, and goes on from there."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from engine.cli.address import open_run
from engine.cli.exits import Failure
from engine.cli.inspect.at_position import load
from engine.cli.run.confirm import confirm
from engine.cli.run.run import finish, shared
from engine.cli.settings.layers import SettingsError, amend
from engine.config import Config
from engine.core.state import State
from events.errors import LogDamaged
from events.reader import LogReader, RunRow

if TYPE_CHECKING:
    from agents.clients.turns import Turns
    from engine.loop.start import Recovered
    from events.envelope import Event
    from projections.run.overview import Overview

__all__ = ["fork"]

_FIXED = {
    "sandbox.device": "the runtimes before the fork are of that device",
    "sandbox.protocol": "the verdicts before the fork were given under that protocol",
    "sandbox.threads": "the runtimes before the fork were taken with that many",
    "search.start": "a run's start is in its first event",
}
"""What the outcomes that a fork shares depend on, so that it can't change on the way."""


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    log: str
    at: int
    assignments: list[str]
    replies: Literal["live", "recorded"]
    evaluations: Literal["anew", "recorded"]
    display: str
    yes: bool


@click.command()
@click.argument("log")
@click.option("--at", type=int, required=True, metavar="SEQ",
              help="The last event (run_seq) that the fork shares.")  # fmt: skip
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE",
              help="What the fork is configured otherwise, such as search.epsilon=0.6")  # fmt: skip
@click.option("--replies", type=click.Choice(["live", "recorded"]), default="live",
              show_default=True,
              help="recorded: out of LOG, where it has one to the identical request.")  # fmt: skip
@click.option("--evaluations", type=click.Choice(["anew", "recorded"]), default="anew",
              show_default=True,
              help="recorded: LOG's verdict, where it has one on the same source.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask before paid calls.")
@shared
def fork(
    log: str, at: int, assignments: tuple[str, ...], replies: Literal["live", "recorded"],
    evaluations: Literal["anew", "recorded"], yes: bool, backend: str, display: str,
    as_json: bool, require_isolation: str | None,
) -> int:  # fmt: skip
    """Begin a new run in the file LOG that has LOG's history up to event SEQ in common with it.

    Nothing is copied. Whatever was due or in flight at SEQ is settled by the fork, under its own
    configuration. Task, device and protocol stay.
    """
    isolation = [f"sandbox.require_isolation={require_isolation}"] if require_isolation else []
    from engine.cli.run.session import at_work

    told = _Told(
        log=log, at=at, assignments=[*assignments, *isolation], replies=replies,
        evaluations=evaluations, display=display, yes=yes,
    )  # fmt: skip
    return finish(at_work(partial(_fork, told), backend), as_json)


async def _fork(told: _Told, turns: Turns) -> Any:
    from agents.templates import Templates
    from engine.cli.run.clients import open_clients
    from engine.cli.run.machine import open_sandbox, resolve_device
    from engine.cli.run.retired_models import set_instead
    from engine.cli.run.session import Done, drive
    from engine.loop.forecast import forecast_rest
    from engine.loop.run import RunLoop
    from engine.loop.start import forked
    from engine.loop.texts import Texts
    from events.writer import LogWriter
    from replay.recorded import out_of_log

    point = _point(told)
    path, parent, state = point.path, point.parent, point.recovered.state
    config, changed = _configured(state, told)
    templates = Templates(texts=point.recovered.templates)
    async with AsyncExitStack() as stack:
        expected = forecast_rest(
            state, config, templates, point.task_source, attempts=config.budget.attempts
        )
        clients = await open_clients(
            stack, config, state.attempts.values(), asked=expected.attempts > 0,
            instead=None if told.replies == "recorded" else set_instead(config),
        )  # fmt: skip
        sandbox = await open_sandbox(stack, config)
        config, device = await resolve_device(sandbox, config)
        _check_device(state, device)
        canned = any(client.canned for client in clients.values())
        confirm(config, canned, expected, yes=told.yes)
        log = await stack.enter_async_context(LogWriter(path))
        reader = stack.enter_context(LogReader(path))
        clients, verdicts = out_of_log(
            reader, clients, parent=parent.run_id, run=parent.run_id, upto=told.at,
            replies=told.replies, evaluations=told.evaluations,
        )  # fmt: skip
        first = forked(
            state, device, parent=parent.uid, at=told.at, config=config, changed=changed,
            replies=told.replies, evaluations=told.evaluations, canned=canned,
            worked_ms=point.overview.wall_us // 1000,
        )  # fmt: skip
        uid = secrets.token_hex(8)
        run_id = log.fork(parent.run_id, point.event, uid)
        loop = RunLoop(
            log=log, run_id=run_id, uid=uid, state=state, texts=Texts(reader.text),
            recorded=verdicts, wait_s=config.clients.wait_s, turns=turns,
            templates=templates, clients=clients, evaluator=sandbox,
        )  # fmt: skip
        name = f"{path}#{run_id}"
        begun = Done(overview=point.overview, state=state, name=name, uid=uid)
        return await drive(loop, first, [], begun, told.display, sandbox)


class _Point(msgspec.Struct, frozen=True):
    """Where the fork leaves its parent, whose last shared event is ``event``."""

    path: Path
    parent: RunRow
    event: Event
    recovered: Recovered
    overview: Overview
    task_source: str


def _point(told: _Told) -> _Point:
    """What can be refused is refused before the log is opened for writing. Raises ``Failure``."""
    from engine.loop.start import recover

    with open_run(told.log) as opened:
        reader, parent = opened.reader, opened.run
        overview = load(opened, told.at)
        event = next(reader.events(parent.run_id, after=told.at - 1, upto=told.at), None)
        if event is None:
            raise LogDamaged(f"{opened.name}: event {told.at} of the run is missing")
        recovered = recover(reader, parent.run_id, upto=told.at)
        assert recovered.state.started is not None
        return _Point(
            path=reader.path,
            parent=parent,
            event=event,
            recovered=recovered,
            overview=overview,
            task_source=reader.text(recovered.state.started.task_sha256),
        )


def _configured(state: State, told: _Told) -> tuple[Config, dict[str, Any]]:
    """The fork's configuration, and the keys that it changes. Raises ``Failure``."""
    granted = state.granted
    budget = msgspec.structs.replace(
        state.config.budget,
        attempts=granted.attempts,
        usd=_divided(granted.usd_micros, 1_000_000),
        tokens=granted.tokens,
        device_s=_divided(granted.device_ms, 1000),
        wall_s=_divided(granted.wall_ms, 1000),
    )
    try:
        config, changed = amend(
            msgspec.structs.replace(state.config, budget=budget), told.assignments
        )
    except SettingsError as error:
        raise Failure(str(error)) from error
    assert state.started is not None
    for model, price in config.given_prices.items():
        if price != state.started.prices.get(model, price):
            raise Failure(
                f"the price of {model} can't change in a fork: LOG's calls were counted at another;"
                " start a new run, or leave the price out"
            )
    for key, why in _FIXED.items():
        if key in changed:
            raise Failure(f"{key} can't change in a fork: {why}; start a new run for another")
    if told.evaluations == "recorded" and state.baseline != "measured":
        raise Failure(
            f"--evaluations recorded: at event {told.at} the reference was not measured yet, and"
            " LOG's runtimes are relative to it; fork after BaselineMeasured"
        )
    if state.attempts_started >= config.budget.attempts and not state.attempts:
        raise Failure(
            f"nothing is left to do: by event {told.at} all {config.budget.attempts} attempts are"
            " made; fork earlier, or --set budget.attempts=N"
        )
    return config, changed


def _divided(amount: int | None, by: int) -> float | None:
    return None if amount is None else amount / by


def _check_device(state: State, device: Mapping[str, Any]) -> None:
    then = state.started.device.get("name") if state.started else None
    if then is not None and device.get("name") != then:
        raise Failure(
            f"sandbox.device can't change in a fork: the run was measured on {then}, this is"
            f" {device.get('name')}"
        )
