"""Sources merge in order, and the documentation lists every key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.prices import price_of
from engine.cli.settings.layers import SettingsError, amend, environment_name, key_paths, resolve
from engine.config import (
    Config,
    PlannerConfig,
    RoleConfig,
    Roles,
    Sandbox,
    Search,
    config_from_log,
)


def config(
    preset: str | None = None, file: Path | None = None, assignments: list[str] | None = None,
    flags: dict[str, Any] | None = None, **environment: str,
) -> Config:  # fmt: skip
    return resolve(
        preset=preset, file=file, environment=environment, assignments=assignments or [],
        flags=flags or {},
    )  # fmt: skip


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[search]\nepsilon = 0.1\nworkers = 2\nseed = 1\nleaders = 1\n")
    resolved = config(
        preset="paper", file=file, assignments=["search.seed=3"], flags={"search.leaders": 4},
        ENGINE_SEARCH_WORKERS="5", ENGINE_SEARCH_SEED="2", ENGINE_SEARCH_LEADERS="2",
    )  # fmt: skip
    search = resolved.search
    assert (search.epsilon, search.workers, search.seed, search.leaders) == (0.1, 5, 3, 4)
    assert resolved.sandbox.protocol == "paper"
    assert not resolved.prompts.device_facts


def test_a_rule_is_switched_off_by_null() -> None:
    assert config(assignments=["search.root_throttle=null"]).search.root_throttle is None


def test_a_method_sets_policy_and_windows_unless_they_are_named() -> None:
    assert config(flags={"search.method": "ma_only"}).search.policy == "best_of_k"
    assert not config(flags={"search.method": "ma_only"}).search.windows
    mixed = config(flags={"search.method": "ma_only"}, assignments=["search.policy=stark"])
    assert mixed.search.policy == "stark"


def test_the_papers_configuration_is_on_file() -> None:
    """What ``--preset paper`` comes to, all of it: a change here is a change of the claim."""
    resolved = msgspec.json.format(msgspec.json.encode(config(preset="paper")), indent=2)
    assert resolved.decode() + "\n" == (Path(__file__).parent / "preset_paper.json").read_text()


def test_the_paper_has_no_sanitizers_unless_they_are_given_time() -> None:
    sanitize = ["sandbox.sanitize=true"]
    with pytest.raises(SettingsError, match=r"sandbox\.sanitize must be false where"):
        config(preset="paper", assignments=sanitize)
    given = config(preset="paper", assignments=[*sanitize, "sandbox.autopsy_timeout_s=5"])
    assert given.sandbox.sanitize


PLANNERS = PlannerConfig(models=["a:b", "c:d"])
OLD = [
    (
        Config(sandbox=Sandbox(sanitize=True, autopsy_timeout_s=0)),
        ["sandbox.sanitize=true", "sandbox.autopsy_timeout_s=0"],
        "sandbox.sanitize",
    ),
    (
        Config(roles=Roles(code=RoleConfig(thinking=2048, max_tokens=1024))),
        ["roles.code.thinking=2048", "roles.code.max_tokens=1024"],
        "roles.code.thinking",
    ),
    (
        Config(roles=Roles(plan=PLANNERS), search=Search(team="single")),
        ["roles.plan.models=a:b,c:d", "search.team=single"],
        "roles.plan.models",
    ),
    (
        Config(roles=Roles(plan=msgspec.structs.replace(PLANNERS, model="e:f"))),
        ["roles.plan.models=a:b,c:d", "roles.plan.model=e:f"],
        "roles.plan.model",
    ),
]


@pytest.mark.parametrize(("old", "assignments", "wrong"), OLD)
def test_a_rule_between_keys_is_for_who_sets_one_of_them(
    old: Config, assignments: list[str], wrong: str
) -> None:
    """A log may be from before the rule."""
    amended, changed = amend(old, ["search.epsilon=0.5"])
    assert (amended.search.epsilon, changed) == (0.5, {"search.epsilon": 0.5})
    for assignment in assignments:
        with pytest.raises(SettingsError, match=rf"^{wrong} must be "):
            amend(old, [assignment])
    with pytest.raises(SettingsError, match=rf"^{wrong} must be "):
        config(assignments=assignments)


@pytest.mark.parametrize("role", ["plan", "code", "debug", "single"])
def test_thinking_leaves_room_for_the_answer(role: str) -> None:
    key = f"roles.{role}.thinking"
    for tokens in (0, 1024, 31_999):
        assert config(assignments=[f"{key}={tokens}"]).role(role).thinking == tokens
    for tokens in (-1, 1023, 32_000):
        with pytest.raises(SettingsError, match=f"{key} must be 0, or at least 1024 and below"):
            config(assignments=[f"{key}={tokens}"])


def test_role_settings_fall_back_to_the_common_model() -> None:
    resolved = config(assignments=["model=a:b", "roles.code.model=c:d"])
    assert [resolved.role(role).model for role in ("plan", "code")] == ["a:b", "c:d"]
    assert [resolved.role(role).temperature for role in ("plan", "code")] == [0.8, 0.1]


def test_the_logged_configuration_comes_back() -> None:
    resolved = config(preset="paper", assignments=["budget.usd=2.5"])
    assert config_from_log(msgspec.json.decode(msgspec.json.encode(resolved))) == resolved


def test_baselines_are_a_list_however_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[sandbox]\nbaselines = ["compile"]\n')
    assert config().sandbox.baselines == ["eager"]
    assert config(file=file).sandbox.baselines == ["compile"]
    both = config(file=file, ENGINE_SANDBOX_BASELINES="eager, compile").sandbox.baselines
    assert both == ["eager", "compile"]
    with pytest.raises(SettingsError, match=r"sandbox\.baselines"):
        config(flags={"sandbox.baselines": "eager,fast"})


def test_labels_to_refuse_are_a_list_of_known_ones() -> None:
    assert config().sandbox.refuse == []
    assert config(flags={"sandbox.refuse": "fallback,torch-only"}).sandbox.refuse == [
        "fallback", "torch-only",
    ]  # fmt: skip
    with pytest.raises(SettingsError, match=r"sandbox\.refuse.*did you mean fallback"):
        config(ENGINE_SANDBOX_REFUSE="falback")


INLINE = '{"openai:gpt-4.1:x" = {input = 0.15, output = 0.6, cache_read = 0.015}}'


@pytest.mark.parametrize(
    "sources",
    [
        {"assignments": [f"prices={INLINE}"]},
        {"ENGINE_PRICES": INLINE},
        {"assignments": ['prices."openai:gpt-4.1:x"={input=0.15, output=0.6, cache_read=0.015}']},
        {
            "assignments": [
                f"prices.'openai:gpt-4.1:x'.{key}={value}"
                for key, value in {"input": 0.15, "output": 0.6, "cache_read": 0.015}.items()
            ]
        },
    ],
)
def test_a_price_is_the_configurations_before_the_tables(sources: Any) -> None:
    resolved = config(**sources)
    assert config_from_log(msgspec.json.decode(msgspec.json.encode(resolved))) == resolved
    price = price_of("openai:gpt-4.1:x", resolved.given_prices)
    assert price is not None
    # Cached tokens that have no price of their own cost what others do.
    assert msgspec.structs.astuple(price) == (150_000, 600_000, 15_000, 150_000)
    assert price_of("openai:other", resolved.given_prices) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('{"openai:m"={imput=1, output=1}}', r'"openai:m": unknown key imput \(did you mean input'),
        ('{"openai:m"={input=-1, output=1}}', r'"openai:m"\.input must be a number of dollars'),
        ('{"openai:m"={input="1", output=1}}', r"\.input must be a number of dollars"),
        ('{"openai:m"={input=true, output=1}}', r"\.input must be a number of dollars"),
        ('{"openai:m"={input=1, output=inf}}', r"\.output must be a number of dollars"),
        ('{"openai:m"={input=1}}', r'"openai:m" lacks output'),
        ('{"openai:m"=3}', r'"openai:m" is a section'),
        ("{m={input=1, output=1}}", r'"m": name the model as it is asked for, CLIENT:MODEL'),
        ("3", "prices is a section"),
        ("null", "prices is a section"),
    ],
)
def test_a_price_that_is_none_is_refused(value: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        config(assignments=[f"prices={value}"])
    with pytest.raises(SettingsError, match="no key as TOML writes it"):
        config(assignments=['prices."openai:m=3'])


@pytest.mark.parametrize("path", ["search", "search.epsilon.more", "roles.plan.tmperature"])
def test_a_wrong_path_is_named(path: str) -> None:
    with pytest.raises(SettingsError, match=path.split(".")[0]):
        config(assignments=[f"{path}=1"])


def test_every_key_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    missing = [path for path in key_paths() if f"`{path}`" not in text]
    assert missing == []
    assert environment_name("search.epsilon") == "ENGINE_SEARCH_EPSILON"
