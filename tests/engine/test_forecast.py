"""What is said before the first paid call, with several planners."""

from __future__ import annotations

import msgspec
import pytest

from agents.prices import dated, price_of
from agents.templates import load
from engine.cli.run.confirm import confirm
from engine.config import Config, ModelPrice, PlannerConfig, Prompts, RoleConfig, Roles
from engine.core.state import State
from engine.loop.forecast import Forecast, forecast, forecast_rest
from engine.loop.start import prices_today
from events.bodies import GivenKernel
from projections.run.spend import cost_usd_micros
from tests.engine.outside import TASK
from tests.engine.world import World, config_of

OPUS, DEAR, HAIKU = (f"anthropic:claude-{name}" for name in ("opus-4-5", "opus-4-1", "haiku-4-5"))
BOOK = "playbook:demo.toml"


def of(
    planners: list[str], *, others: str = HAIKU, prices: dict[str, ModelPrice] | None = None
) -> Forecast:
    rest = RoleConfig(model=others)
    roles = Roles(plan=PlannerConfig(models=planners), code=rest, debug=rest)
    config = Config(model=BOOK, roles=roles, prices=prices or {}, prompts=Prompts(language="cpp"))
    return forecast(
        config, load(), task_source=TASK, device={}, prices=prices_today(config), attempts=10
    )


def test_several_planners_cost_between_the_cheapest_and_the_dearest_and_at_most_the_dearest() -> (
    None
):
    (cheap, _), (dear, most) = of([OPUS]).usd_micros, of([DEAR]).usd_micros
    expected, at_most = of([OPUS, DEAR]).usd_micros
    assert cheap < expected < dear
    assert expected == (cheap + dear) // 2
    assert at_most == of([DEAR, OPUS]).usd_micros[1] == most
    assert of([OPUS, DEAR]).calls == of([OPUS]).calls


def test_a_role_is_left_out_if_nobody_who_may_be_asked_is_paid() -> None:
    assert of([BOOK, "recorded:log.db"], others=BOOK).calls == (0, 0)
    (plan,) = of([BOOK, OPUS], others=BOOK).roles
    assert (plan.role, plan.models, plan.calls) == ("plan", [OPUS], 10)
    price = price_of(OPUS)
    assert price is not None
    assert plan.usd_micros()[0] == 10 * cost_usd_micros(plan.usage, price)


def test_where_prices_are_from_is_said() -> None:
    assert of([BOOK], others=BOOK).priced_by == ""
    assert of([OPUS]).priced_by == dated()
    mine = ModelPrice(input=1, output=2)
    assert of([OPUS], prices={OPUS: mine, HAIKU: mine}).priced_by == "configuration"
    assert of([OPUS], prices={OPUS: mine}).priced_by == f"{dated()}; configuration for {OPUS}"


def test_a_planner_of_unknown_price_counts_nothing_and_the_others_do() -> None:
    unknown = of([OPUS, "openai:qwen"])
    assert unknown.usd_micros == of([OPUS]).usd_micros
    assert msgspec.to_builtins(unknown.estimates) == msgspec.to_builtins(of([OPUS]).estimates)


@pytest.mark.parametrize(
    ("planners", "thought"),
    [
        ([OPUS], 4096),
        (["bedrock:claude"], 4096),
        (["openai:qwen"], 0),  # which is not told to think
        ([OPUS, "openai:qwen"], 2048),
    ],
)
def test_thinking_is_expected_as_output_of_those_who_are_told_to(
    planners: list[str], thought: int
) -> None:
    def expected(thinking: int) -> tuple[int, int]:
        plan = PlannerConfig(models=planners, max_tokens=16_000, thinking=thinking)
        rest = RoleConfig(model=BOOK)
        roles, prompts = Roles(plan=plan, code=rest, debug=rest), Prompts(language="cpp")
        config = Config(model=BOOK, roles=roles, prompts=prompts)
        found = forecast(config, load(), task_source=TASK, device={}, prices={}, attempts=1)
        (role,) = found.roles
        return role.usage.output_tokens, role.most.output_tokens

    (without, most), (with_it, most_with_it) = expected(0), expected(4096)
    assert with_it == without + thought
    assert most_with_it == most


def test_what_is_under_way_is_expected_also_where_fewer_attempts_are_allowed() -> None:
    world = World(config_of(attempts=8, workers=3), 1)
    while not (world.state.attempts_ended and len(world.state.attempts) > 1):
        world.run(1)
    state = world.state
    allowed, judged = state.attempts_ended, being_judged(state)
    rest = forecast_rest(state, config_of(), load(), TASK, attempts=allowed)
    assert rest.attempts == len(state.attempts) - judged
    rest = forecast_rest(state, config_of(), load(), TASK, attempts=8)
    assert rest.attempts == 8 - allowed - judged


@pytest.mark.parametrize("given", [None, GivenKernel(name="k.py", sha256="9" * 64, key="key")])
def test_an_attempt_that_has_its_candidate_asks_nobody(given: GivenKernel | None) -> None:
    world = World(config_of(attempts=1), 1, given=given)
    before = forecast_rest(world.state, config_of(), load(), TASK, attempts=1)
    assert before.attempts == (0 if given else 1)
    while not being_judged(world.state):
        world.run(1)
    assert forecast_rest(world.state, config_of(), load(), TASK, attempts=1).attempts == 0
    assert forecast_rest(world.state, config_of(), load(), TASK, attempts=3).attempts == 2


def being_judged(state: State) -> int:
    return sum(attempt.evaluation is not None for attempt in state.attempts.values())


@pytest.mark.parametrize(
    ("model", "attempts", "said"),
    [
        ("recorded:log.db", 3, ""),
        ("mailbox:box", 3, "Requests are files in box, to be answered there.\n"),
        ("mailbox:box", 0, ""),
        ("openai:qwen", 0, ""),
    ],
)
def test_where_nothing_is_sent_nothing_is_said_to_be_and_nobody_is_asked(
    model: str, attempts: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    confirm(Config(model=model), False, Forecast(attempts=attempts, roles=[]), yes=False)
    assert capsys.readouterr().err == said
