"""Before anything is paid: what is sent where, what it may take, and whether to go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engine.cli.exits import Failure
from engine.cli.run.retired_models import retiring_lines, today
from engine.cli.views.draw import CANNED
from engine.config import Config

if TYPE_CHECKING:
    from engine.loop.forecast import Forecast

__all__ = ["confirm"]

_FREE = ("playbook:", "recorded:")
"""Their replies exist already: nothing is sent, and nothing is paid."""


def confirm(config: Config, canned: bool, expected: Forecast, *, yes: bool) -> None:
    """Say it, and ask unless that was answered already. Raises ``Failure``."""
    from agents.prices import price_of
    from engine.loop.methods import models_of

    if canned:
        click.echo(CANNED, err=True)
    models = sorted(model for model in models_of(config) if not model.startswith(_FREE))
    boxes = [model.partition(":")[2] for model in models if model.startswith("mailbox:")]
    if boxes and expected.attempts:
        click.echo(f"Requests are files in {', '.join(boxes)}, to be answered there.", err=True)
    if config.budget.usd is not None and boxes:
        raise Failure(
            "--budget-usd can't be kept with a mailbox: the price of its replies is unknown"
        )
    if len(config.models("plan")) > 1 and config.roles.plan.reward_per == "dollar":
        _check_priced_plans(config)
    paid = [model for model in models if not model.startswith("mailbox:")]
    if not paid:
        return
    unpriced = [model for model in paid if price_of(model, config.given_prices) is None]
    if config.budget.usd is not None and unpriced:
        raise Failure(
            f"--budget-usd needs a price for {', '.join(unpriced)}, and none is known: say what a"
            f" million tokens cost in dollars, {_price_line(unpriced[0])}, or leave the budget out"
            " to run without a spending limit"
        )
    if not expected.attempts:
        return  # what is left to judge is there
    click.echo(_where(config, paid, expected), err=True)
    for line in _forecast_lines(config, expected, priced=len(unpriced) < len(paid)):
        click.echo(line, err=True)
    if expected.priced_by:
        click.echo(f"Prices: {expected.priced_by}.", err=True)
    if unpriced:
        click.echo(f"The price of {', '.join(unpriced)} is not known.", err=True)
    for line in retiring_lines(paid, today()):
        click.echo(line, err=True)
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure("not on a terminal: nothing can be asked; give --yes to go ahead")
    click.confirm("Go on?", abort=True, err=True)


def _where(config: Config, paid: list[str], expected: Forecast) -> str:
    from agents.clients.open import server_of

    servers = {model: server_of(model, **config.client(model)) for model in paid}
    where = [model + (f" at {servers[model]}" if servers[model] else "") for model in paid]
    return (
        f"The task's source, and every candidate with its logs, will be sent to"
        f" {', '.join(where)}, for up to {expected.attempts} attempts."
    )


def _forecast_lines(config: Config, expected: Forecast, *, priced: bool) -> Iterator[str]:
    (calls, most_calls), (tokens, most_tokens) = expected.calls, expected.tokens
    usd, most_usd = (f", ${micros / 1e6:.2f}" if priced else "" for micros in expected.usd_micros)
    recorded = sum(role.recorded for role in expected.roles)
    how = "guessed from this task's prompts"
    if recorded:
        how = f"going by the {recorded} calls that this run has made"
        if guessed := [r.role for r in expected.roles if not r.recorded and not r.repair]:
            how += f", {', '.join(guessed)} guessed"
    if any(len(role.models) > 1 for role in expected.roles):
        how += ", each planner asked equally often; at most: always the dearest"
    yield f"Expected: {calls} calls, {_thousands(tokens)} tokens{usd} ({how})."
    yield (
        f"At most: {most_calls} calls, {_thousands(most_tokens)} tokens{most_usd} (every reply as"
        f" long as allowed and asked again {config.search.reasks} times, every prompt full)."
    )
    budget = config.budget
    limits = {
        "$": budget.usd, " tokens": budget.tokens, " s of device time": budget.device_s,
        " s at work": budget.wall_s,
    }  # fmt: skip
    set_ = [
        f"${value:g}" if unit == "$" else f"{value:,g}{unit}"
        for unit, value in limits.items() if value is not None
    ]  # fmt: skip
    if set_:
        yield f"Stops at {', '.join(set_)}, in all, give or take the calls in flight."


def _thousands(tokens: int) -> str:
    return f"{tokens:,}" if tokens < 10_000 else f"{round(tokens, -3):,}"


def _check_priced_plans(config: Config) -> None:
    """Reward per dollar of a planner is nothing where the dollars are not known. Raises
    ``Failure``."""
    from agents.prices import price_of

    asked = [model for role in ("plan", "code") for model in config.models(role)]
    unpriced = [m for m in dict.fromkeys(asked) if price_of(m, config.given_prices) is None]
    if unpriced:
        raise Failure(
            f"roles.plan.models are chosen by reward per dollar, and the price of"
            f" {', '.join(unpriced)} is not known: choose by tokens instead, with"
            " --set roles.plan.reward_per=token, name one planner as roles.plan.model, or say"
            f" what a million tokens cost in dollars, {_price_line(unpriced[0])}"
        )


def _price_line(model: str) -> str:
    """How a price is set, as it is typed."""
    return f"--set 'prices.\"{model}\"={{input = 0.15, output = 0.6}}' for instance"
