"""What the rest of a run may take, before the first paid call: calls, tokens, dollars.

Expected: what the role's calls took so far, where there were enough to go by; else a guess
from the prompt for this very task. At most: every attempt asks all its roles again as often
as it may, each prompt shows as many attempts as fit, and each reply is as long as allowed.
Of several planners, each is expected to be asked as often as the others, since the bandit's
preference is not known yet; at most it is always the dearest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from agents.prices import dated
from agents.render import NodeView, render
from agents.templates import Templates
from engine.config import Config
from engine.core.state import State
from engine.loop.methods import roles_of, team_of
from engine.loop.start import prices_today
from events.bodies import Price, Usage
from gpu_sandbox.evaluate.input_sets import shown_source
from projections.run.spend import Spend, cost_usd_micros, prices_words

__all__ = ["Forecast", "RoleForecast", "forecast", "forecast_rest"]

_CHARS_A_TOKEN = 3
"""Source code has three to four characters a token."""
_THINKING = ("anthropic:", "anthropic-batch:", "bedrock:", "vertex:")
"""Clients that send ``thinking``; others do not."""
_MOST_SHOWN_CHARS = 9_000  # of an attempt's observations in a window
_WORDS_CHARS = 1500
"""A guess: an advice or an explanation, and what is shown of an attempt's logs."""


class RoleForecast(msgspec.Struct, frozen=True, kw_only=True):
    """One role's calls; ``usage`` and ``most`` are of one of them.

    ``recorded`` is how many calls ``usage`` is the mean of; 0: it is guessed. ``models`` are
    those that may be asked and are paid, ``prices`` what is known of what they cost.
    """

    role: str
    repair: bool
    """It works on attempts that the others then have no part in, if there are such."""
    calls: int
    most_calls: int
    usage: Usage
    most: Usage
    recorded: int
    models: list[str]
    prices: list[Price]

    def usd_micros(self) -> tuple[int, int]:
        """Expected and at most; an unknown price counts nothing."""
        if not self.prices:
            return 0, 0
        costs = [cost_usd_micros(self.usage, price) for price in self.prices]
        most = [cost_usd_micros(self.most, price) for price in self.prices]
        return -(-self.calls * sum(costs) // len(costs)), self.most_calls * max(most)


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """``attempts`` more of them."""

    attempts: int
    roles: list[RoleForecast]
    priced_by: str = ""
    """Where the prices are from, as ``projections.run.spend.prices_words`` says it."""

    @property
    def calls(self) -> tuple[int, int]:
        """Expected and at most, as all that follow."""
        return self._sums(lambda role: (role.calls, role.most_calls))

    @property
    def tokens(self) -> tuple[int, int]:
        return self._sums(
            lambda role: (role.calls * _tokens(role.usage), role.most_calls * _tokens(role.most))
        )

    @property
    def usd_micros(self) -> tuple[int, int]:
        return self._sums(RoleForecast.usd_micros)

    def _sums(self, of: Callable[[RoleForecast], tuple[int, int]]) -> tuple[int, int]:
        usual, repair = (
            [of(role) for role in self.roles if role.repair is repairs] for repairs in (False, True)
        )
        return (
            sum(expected for expected, _ in usual),
            max(sum(most for _, most in usual), sum(most for _, most in repair)),
        )

    @property
    def estimates(self) -> dict[str, Usage]:
        """One call of each role, as ``RunStarted`` logs it."""
        return {role.role: role.usage for role in self.roles}


def forecast(
    config: Config,
    templates: Templates,
    *,
    task_source: str,
    device: Mapping[str, Any],
    prices: Mapping[str, Price],
    attempts: int,
    spend: Spend | None = None,
    prices_dated: str | None = None,
) -> Forecast:
    """Of ``attempts`` attempts at this task, by agents. ``spend`` is the run's own, if it goes on,
    and ``prices_dated`` the day of the table that it began with.

    Roles that playbooks or logs alone answer for are left out: they take nothing.
    """
    team = team_of(config)
    usual = set(team.roles(repair=False))
    found = []
    for role in roles_of(config):
        models = [m for m in config.models(role) if not m.startswith(("playbook:", "recorded:"))]
        if not models:
            continue
        guess, most = _guessed(config, templates, role, models, task_source, device)
        spent = spend.roles.get(role) if spend else None
        recorded = spent.counted if spent else 0
        if spent is not None and recorded:
            guess = Usage(
                input_tokens=-(-spent.input_tokens // recorded),
                output_tokens=-(-spent.output_tokens // recorded),
            )
        found.append(
            RoleForecast(
                role=role,
                repair=role not in usual,
                calls=attempts,
                most_calls=attempts * (1 + config.search.reasks),
                usage=guess,
                most=most,
                recorded=recorded,
                models=models,
                prices=[prices[model] for model in models if model in prices],
            )
        )
    priced = {model for role in found for model in role.models if model in prices}
    of = prices_words(priced, config.prices, prices_dated or dated()) if priced else ""
    return Forecast(attempts=attempts, roles=found, priced_by=of)


def forecast_rest(
    state: State, config: Config, templates: Templates, task_source: str, *, attempts: int
) -> Forecast:
    """Of what a run that is in its log has left: ``attempts`` in all, under ``config``."""
    assert state.started is not None
    return forecast(
        config,
        templates,
        task_source=task_source,
        device=state.started.device,
        prices={**prices_today(config), **state.started.prices},
        attempts=_left(state, attempts),
        spend=state.spend,
        prices_dated=state.started.prices_dated,
    )


def _left(state: State, attempts: int) -> int:
    """Of so many in all, by agents. Those under way go on, also where a fork allows fewer; those
    that have their candidate, as the user's kernel has, make no more calls."""
    flying = state.attempts.values()
    left = max(attempts - state.attempts_ended, len(flying))
    written = sum(attempt.step >= len(attempt.roles) for attempt in flying)
    return left - written - (state.given is not None and not flying)


def _guessed(
    config: Config,
    templates: Templates,
    role: str,
    models: Sequence[str],
    task: str,
    device: Mapping[str, Any],
) -> tuple[Usage, Usage]:
    """One call of the role to one of ``models``: a guess, and the most that it can be."""
    prompt = render(
        templates,
        role=role,
        language=config.prompts.language,
        task_source=shown_source(task),
        selected=NodeView(id=0, source=shown_source(task), is_root=True),
        device=device if config.prompts.device_facts else None,
        protocol=config.sandbox.protocol if config.prompts.accuracy else "",
    )
    bare = sum(len(part.text) for part in prompt.parts)
    limit, thinking = config.role(role).max_tokens, config.role(role).thinking
    thinkers = sum(model.startswith(_THINKING) for model in models)
    shown = config.search.window_nodes
    longest = max(config.role(name).max_tokens for name in roles_of(config))
    reply = len(task) + _WORDS_CHARS if role == "plan" else 2 * len(task) + _WORDS_CHARS
    return (
        Usage(
            # Half of the window, with candidates twice as long as their task.
            input_tokens=_tokens_of(bare + (shown // 2) * (2 * len(task) + _WORDS_CHARS)),
            output_tokens=min(limit, _tokens_of(reply) + thinking * thinkers // len(models)),
        ),
        Usage(
            input_tokens=_tokens_of(bare + shown * _MOST_SHOWN_CHARS) + (shown + 1) * longest,
            output_tokens=limit,
        ),
    )


def _tokens_of(chars: int) -> int:
    return -(-chars // _CHARS_A_TOKEN)


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
