"""Opening a run: its first event, or the state that an earlier process left."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from agents.prices import dated, price_of
from agents.replies.normal_form import source_key
from agents.templates import pinned
from engine.config import Config
from engine.core.evolve import evolve
from engine.core.state import State
from engine.loop.methods import models_of, team_of
from engine.loop.texts import Texts
from events.bodies import (
    GivenKernel,
    Price,
    PromptRendered,
    RunForked,
    RunResumed,
    RunStarted,
    Usage,
)
from events.envelope import Blob
from events.reader import LogReader
from projections.run.mail import Mail

__all__ = [
    "Recovered", "forked", "prices_today", "recover", "resumed", "run_started", "versions",
]  # fmt: skip


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What the log says of a run: the core's state, the prompt texts it pinned, what came of
    requests whose replies came later, and the calls that were not sent yet."""

    state: State
    templates: dict[str, str]
    mail: Mail
    unsent: list[int]


def run_started(
    *,
    config: Config,
    task_name: str,
    task_source: str,
    device: Mapping[str, Any],
    canned: bool,
    texts: Texts,
    estimates: Mapping[str, Usage] | None = None,
    given: str | None = None,
) -> tuple[RunStarted, list[Blob]]:
    """The first event of a run and its blobs: the task, every prompt text, and the source in
    ``search.start``, which is ``given``. ``estimates`` are of one call of each role."""
    task = texts.put("task", task_source)
    templates = {name: texts.put(name, text) for name, text in pinned().items()}
    blobs = [task, *templates.values()]
    kernel = None
    if given is not None:
        blobs.append(texts.put("given", given))
        name = PurePath(config.search.start or "").name
        kernel = GivenKernel(name=name, sha256=blobs[-1].sha256, key=source_key(given))
    body = RunStarted(
        title=task_name,
        config=msgspec.to_builtins(config),
        task_name=task_name,
        task_sha256=task.sha256,
        templates={name: blob.sha256 for name, blob in templates.items()},
        seed=config.search.seed,
        prices=prices_today(config),
        prices_dated=dated(),
        versions=versions(device),
        device=dict(device),
        canned=canned,
        estimates=dict(estimates or {}),
        given=kernel,
    )
    return body, blobs


def recover(reader: LogReader, run_id: int, *, upto: int | None = None) -> Recovered:
    """Fold a run's log, or its events up to ``upto``. Raises what reading raises, and
    ``OlderFormat``."""
    state, mail = State(team_of), Mail()
    sent: dict[int, int] = {}
    for event in reader.events(run_id, upto=upto):
        state = evolve(state, event.body)
        mail.apply(event.body)
        if isinstance(event.body, PromptRendered):
            sent[event.body.call] = event.body.try_
    calls = [attempt.call for attempt in state.attempts.values() if attempt.call is not None]
    templates = state.started.templates if state.started else {}
    return Recovered(
        state=state,
        templates={name: reader.text(sha) for name, sha in templates.items()},
        mail=mail,
        unsent=[
            call.body.call
            for call in calls
            if call.status == "sent" and sent.get(call.body.call) != call.body.try_
        ],
    )


def resumed(
    device: Mapping[str, Any],
    *,
    extra: Mapping[str, int] | None = None,
    worked_ms: int = 0,
    require_isolation: str | None = None,
    mailbox: str | None = None,
    unsent: Sequence[int] = (),
) -> RunResumed:
    """The first event of a process that goes on with a run. ``extra`` is added to the run's
    budgets, by the names of ``BudgetGrant``; ``unsent`` is ``Recovered``'s."""
    return RunResumed(
        versions=versions(device),
        worked_ms=worked_ms,
        require_isolation=require_isolation,
        mailbox=mailbox,
        unsent=list(unsent),
        **{f"extra_{name}": amount for name, amount in (extra or {}).items()},
    )


def forked(
    state: State,
    device: Mapping[str, Any],
    *,
    parent: str,
    at: int,
    config: Config,
    changed: Mapping[str, Any],
    replies: Literal["live", "recorded"],
    evaluations: Literal["anew", "recorded"],
    canned: bool,
    worked_ms: int = 0,
) -> RunForked:
    """The first event of a fork's own. ``state`` is the parent's at the fork, ``canned``
    whether a client of the fork is."""
    assert state.started is not None
    known = state.started.prices
    return RunForked(
        parent=parent,
        at=at,
        config=msgspec.to_builtins(config),
        changed=dict(changed),
        replies=replies,
        evaluations=evaluations,
        prices={
            model: price for model, price in prices_today(config).items() if model not in known
        },
        versions=versions(device),
        canned=canned or state.started.canned,
        worked_ms=worked_ms,
    )


def prices_today(config: Config) -> dict[str, Price]:
    """Today's prices of the models that the team's roles name, where there is one: the
    configuration's, else the table's."""
    found = {model: price_of(model, config.given_prices) for model in sorted(models_of(config))}
    return {model: price for model, price in found.items() if price is not None}


def versions(device: Mapping[str, Any]) -> dict[str, str]:
    """What made this log, for comparisons of numbers."""
    found = {
        "engine": engine_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
    }
    for name in ("torch", "cuda", "driver"):
        if device.get(name):
            found[name] = str(device[name])
    return found


def engine_version() -> str:
    """The installed version; a source tree that is not installed says so."""
    try:
        return metadata.version("stark-engine")
    except metadata.PackageNotFoundError:
        return "0.2.0.dev0+uninstalled"
