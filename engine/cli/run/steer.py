"""``engine steer``: tell a run something while it goes on, or before it is resumed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from engine.cli.address import log_errors, open_run
from engine.cli.exits import Failure
from engine.cli.inspect.inspect import emit, json_option
from engine.cli.views.event_lines import event_line
from events.errors import LogInUse

if TYPE_CHECKING:
    from engine.loop.steering_commands import SteeringCommand

__all__ = ["steer"]

_PATIENCE_S = 10.0


@click.command()
@click.argument("log")
@click.option("--hint", "hints", multiple=True, metavar="TEXT",
              help="Show this to the planner until it is withdrawn.")  # fmt: skip
@click.option("--withdraw", multiple=True, type=int, metavar="HINT", help="Show hint HINT no more.")
@click.option("--ban", multiple=True, type=int, metavar="NODE", help="Begin nothing from NODE.")
@click.option("--unban", multiple=True, type=int, metavar="NODE", help="Let NODE be selected.")
@click.option("--pin", type=int, metavar="NODE", help="Begin each attempt from NODE.")
@click.option("--unpin", is_flag=True, help="Let the policy select again.")
@click.option("--stop-after-attempt", is_flag=True,
              help="End the run when the attempts in flight are done.")  # fmt: skip
@json_option
def steer(
    log: str, hints: tuple[str, ...], withdraw: tuple[int, ...], ban: tuple[int, ...],
    unban: tuple[int, ...], pin: int | None, unpin: bool, stop_after_attempt: bool, as_json: bool,
) -> None:  # fmt: skip
    """Tell the run in LOG what to do differently; all of it is in the log, and in force until it is
    taken back, over resumes and forks."""
    from engine.loop.steering_commands import SteeringCommand

    with open_run(log) as opened:
        path, run = opened.reader.path, opened.run
    command = SteeringCommand(
        run=run.uid, hints=list(hints), withdraw=list(withdraw), ban=list(ban), unban=list(unban),
        pin=pin, unpin=unpin, stop_after_attempts=stop_after_attempt,
    )  # fmt: skip
    if command == SteeringCommand(run=run.uid):
        raise Failure("nothing to tell: give --hint, --ban, --pin, --stop-after-attempt or another")
    with log_errors(path):
        seqs = _deliver(path, command)
    with open_run(log) as opened:
        for event in opened.reader.events(run.run_id, after=seqs[0] - 1, upto=seqs[-1]):
            if event.run_seq in seqs and as_json:
                emit({"run_seq": event.run_seq, "type": event.type, "body": event.body})
            elif event.run_seq in seqs:
                click.echo(f"event {event.run_seq}: {event_line(event.body)}")


def _deliver(path: Path, command: SteeringCommand) -> list[int]:
    """By the log's writer, or by this process if it has none. Raises ``Failure``."""
    from engine.loop.steering import apply_offline, send_command

    # Between a run's end and its process's, neither can.
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        answer = send_command(path, command)
        if answer is None:
            try:
                answer = anyio.run(apply_offline, path, command)
            except LogInUse:
                if time.monotonic() > deadline:
                    raise
        if answer is not None and answer.refused is not None:
            raise Failure(f"{path}: {answer.refused}")
        if answer is not None and not answer.over:
            return answer.events
        time.sleep(0.05)
