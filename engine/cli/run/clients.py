"""The clients of a run's models, opened."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from agents.clients.open import KeyMissing, open_client
from agents.clients.playbook import PlaybookInvalid
from agents.clients.port import Client
from engine.cli.address import split
from engine.cli.exits import Exit, Failure
from engine.cli.run.retired_models import refuse_retired
from engine.config import Config
from engine.core.state import Attempt
from engine.loop.methods import models_of
from events.bodies import Body
from events.reader import LogReader
from replay.recorded import RecordedLog, taken_from

__all__ = ["check_mailboxes", "open_clients"]


async def open_clients(
    stack: AsyncExitStack,
    config: Config,
    in_flight: Iterable[Attempt] = (),
    *,
    asked: bool,
    instead: str | None,
    mailbox: Path | None = None,
    so_far: Callable[[], Iterable[Body]] = tuple,
) -> Mapping[str, Client]:
    """A client for each model that the team's roles name, or those of attempts that another
    team began. Where no role will be ``asked``, a missing key is no error.
    ``mailbox`` is where any mailbox is now, ``so_far`` what the run's log holds. ``instead`` says
    how to name another model than a retired one; None: replies may come without asking it.

    Raises ``Failure`` and ``LogError``.
    """
    clients: dict[str, Client] = {}
    specs = _specs(config, in_flight)
    if asked and instead is not None:
        refuse_retired(specs, instead)
    for spec in specs:
        moved = mailbox is not None and _is_mailbox(spec)
        recorded = functools.partial(_recorded, spec, so_far)
        try:
            client, _ = open_client(
                f"mailbox:{mailbox}" if moved else spec, recorded=recorded, **config.client(spec)
            )
        except KeyMissing as missing:
            if not asked:
                continue
            raise Failure(str(missing), Exit.MISSING) from missing
        except (PlaybookInvalid, ValueError) as error:
            raise Failure(str(error)) from error
        stack.push_async_callback(client.aclose)
        clients[spec] = client
    return clients


def check_mailboxes(config: Config, in_flight: Iterable[Attempt], mailbox: Path | None) -> None:
    """A mailbox that is not where it was would be made anew, where no one answers it.

    Raises ``Failure``.
    """
    boxes = [spec.partition(":")[2] for spec in _specs(config, in_flight) if _is_mailbox(spec)]
    if mailbox is not None and boxes:
        boxes = [str(mailbox)]
    for box in boxes:
        if not Path(box).expanduser().is_dir():
            raise Failure(
                f"the run's mailbox {box} is not here: say where it is now with --mailbox DIR"
                " (an empty directory will do: what is still to be answered is written again)"
            )


def _is_mailbox(spec: str) -> bool:
    return spec.startswith("mailbox:")


def _specs(config: Config, in_flight: Iterable[Attempt]) -> list[str]:
    roles = [role for attempt in in_flight for role in attempt.roles]
    begun = [model for role in roles for model in config.models(role)]
    return list(dict.fromkeys([*models_of(config), *begun]))


def _recorded(spec: str, so_far: Callable[[], Iterable[Body]], address: str) -> Client:
    path, run = split(address)
    if not path.is_file():
        raise Failure(f"{spec}: {path}: no such log")
    reader = LogReader(path)
    return RecordedLog(reader, reader.find_run(run).run_id, address, taken_from(spec, so_far()))
