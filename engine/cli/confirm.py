"""What a run sends where and what it may cost, said before, and asked."""

from __future__ import annotations

import sys

import click

from engine.cli.draw import CANNED
from engine.cli.exits import Failure
from engine.config import Config

__all__ = ["confirm"]


def confirm(config: Config, canned: bool, *, yes: bool) -> None:
    """Say what is sent where and what it may cost; ask unless that was answered already."""
    from agents.clients.open import server_of
    from agents.prices import price_of
    from engine.loop.methods import models_of, roles_of

    if canned:
        click.echo(CANNED, err=True)
    models = sorted(model for model in models_of(config) if not model.startswith("playbook:"))
    boxes = [model.partition(":")[2] for model in models if model.startswith("mailbox:")]
    if boxes:
        click.echo(f"Requests are files in {', '.join(boxes)}, to be answered there.", err=True)
    if config.budget.usd is not None and boxes:
        raise Failure("--budget-usd can't be kept with a mailbox: nobody knows what replies cost")
    paid = [model for model in models if not model.startswith("mailbox:")]
    if not paid:
        return
    prices = {model: price_of(model) for model in paid}
    unpriced = [model for model, price in prices.items() if price is None]
    if config.budget.usd is not None and unpriced:
        raise Failure(
            f"--budget-usd needs a price for {', '.join(unpriced)}, and there is none in"
            " agents/prices.toml; leave the budget out to run without a spending limit"
        )
    servers = {model: server_of(model, **config.client(model)) for model in paid}
    where = [model + (f" at {servers[model]}" if servers[model] else "") for model in paid]
    roles = roles_of(config)
    calls = "one call" if len(roles) == 1 else "one or two calls"
    click.echo(
        f"The task's source, and every candidate with its logs, will be sent to"
        f" {', '.join(where)}: up to {config.budget.attempts} attempts of {calls} each.",
        err=True,
    )
    known = [price for price in prices.values() if price is not None]
    if known:
        # Every call with ten thousand tokens in and the whole output limit out: a bound
        # that real searches stay well below.
        top = max(
            10_000 * price.input_usd_micros_per_mtok
            + max(config.role(role).max_tokens for role in roles) * price.output_usd_micros_per_mtok
            for price in known
        )
        usd = min(len(roles), 2) * config.budget.attempts * top / 1e12
        limit = f" (and stops at ${config.budget.usd:g})" if config.budget.usd else ""
        click.echo(f"That may cost up to about ${usd:.2f}{limit}.", err=True)
    if unpriced:
        click.echo(f"The price of {', '.join(unpriced)} is not known.", err=True)
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure("not on a terminal, so nobody can be asked: give --yes to go ahead")
    click.confirm("Go on?", abort=True, err=True)
