"""What values keys may have, beyond their types."""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

from agents.languages import LANGUAGES
from engine.config import Config, Roles, by_key_path

__all__ = ["broken_rule"]

_BETWEEN = {
    "sandbox.sanitize": "sandbox.autopsy_timeout_s",
    "roles.plan.models": "search.team",
    "roles.plan.model": "roles.plan.models",
    **{f"roles.{role}.thinking": f"roles.{role}.max_tokens" for role in Roles.__struct_fields__},
}
"""Rules that look at another key as well, by the key that they are named by."""


def broken_rule(config: Config, assigned: Collection[str]) -> str | None:
    """The first thing that is wrong in ``config`` with what was ``assigned``, by key path: rules
    of other keys are not looked at."""
    for path, value in by_key_path(msgspec.to_builtins(config)):
        if path in assigned and isinstance(value, float) and not math.isfinite(value):
            return f"{path} must be a finite number"
    for path, (holds, wanted) in _rules(config).items():
        if not holds and not {path, _BETWEEN.get(path, path)}.isdisjoint(assigned):
            return f"{path} must be {wanted}"
    return None


def _rules(config: Config) -> dict[str, tuple[bool, str]]:
    """For each key that has a rule, whether it holds, and what it says."""
    search, budget = config.search, config.budget
    rules = {
        "search.epsilon": (0 <= search.epsilon <= 1, "between 0 and 1"),
        "search.workers": (1 <= search.workers <= 1024, "between 1 and 1024"),
        "search.seed": (-(2**63) <= search.seed < 2**63, "a 64-bit integer"),
        "search.root_throttle": (
            search.root_throttle is None or search.root_throttle >= 1,
            "at least 1, or null",
        ),
        "search.dead_branch": ((search.dead_branch or 0) >= 0, "at least 0, or null"),
        "search.uct_c": (search.uct_c >= 0, "at least 0"),
        "search.population": (search.population >= 1, "at least 1"),
        "search.tournament": (search.tournament >= 1, "at least 1"),
        "search.leaders": (search.leaders >= 0, "at least 0"),
        "search.window_nodes": (search.window_nodes >= 2, "at least 2"),
        "search.reasks": (search.reasks >= 0, "at least 0"),
        "search.call_tries": (search.call_tries >= 1, "at least 1"),
        "search.outage_failures": (search.outage_failures >= 1, "at least 1"),
        "search.retry_wait_ms": (search.retry_wait_ms >= 0, "at least 0"),
        "search.evaluation_tries": (search.evaluation_tries >= 1, "at least 1"),
        "budget.attempts": (budget.attempts >= 1, "at least 1"),
        "budget.usd": (budget.usd is None or budget.usd > 0, "above 0, or null"),
        "budget.tokens": (budget.tokens is None or budget.tokens >= 1, "at least 1, or null"),
        "budget.device_s": (budget.device_s is None or budget.device_s > 0, "above 0, or null"),
        "budget.wall_s": (budget.wall_s is None or budget.wall_s > 0, "above 0, or null"),
        "budget.target_speedup": (
            budget.target_speedup is None or budget.target_speedup > 0,
            "above 0, or null",
        ),
        "budget.patience": (budget.patience is None or budget.patience >= 1, "at least 1, or null"),
        "prompts.language": (
            config.prompts.language in ("auto", *LANGUAGES),
            f"one of auto, {', '.join(LANGUAGES)}",
        ),
        "clients.wait_s": (config.clients.wait_s >= 0, "at least 0"),
        "sandbox.compile_jobs": (
            config.sandbox.compile_jobs is None or config.sandbox.compile_jobs >= 1,
            "at least 1, or null",
        ),
        "limits.calls": (
            config.limits.calls is None or config.limits.calls >= 1,
            "at least 1, or null",
        ),
        "limits.tokens_a_minute": (
            config.limits.tokens_a_minute is None or config.limits.tokens_a_minute >= 1,
            "at least 1, or null",
        ),
        "sandbox.cache_gb": (config.sandbox.cache_gb >= 0, "at least 0"),
        "sandbox.compile_timeout_s": (config.sandbox.compile_timeout_s > 0, "above 0"),
        "sandbox.autopsy_timeout_s": (config.sandbox.autopsy_timeout_s >= 0, "at least 0"),
        "sandbox.sanitize": (
            not config.sandbox.sanitize or config.sandbox.autopsy_timeout_s != 0,
            "false where sandbox.autopsy_timeout_s is 0",
        ),
        "sandbox.observe_share": (0 <= config.sandbox.observe_share <= 1, "between 0 and 1"),
        "sandbox.counters_timeout_s": (config.sandbox.counters_timeout_s >= 0, "at least 0"),
        "sandbox.bench_s": (
            config.sandbox.bench_s is None or config.sandbox.bench_s > 0,
            "above 0, or null",
        ),
        "sandbox.run_timeout_s": (config.sandbox.run_timeout_s > 0, "above 0"),
        "sandbox.memory_gb": (config.sandbox.memory_gb >= 1, "at least 1"),
        "sandbox.threads": (
            config.sandbox.threads is None or config.sandbox.threads >= 1,
            "at least 1, or null",
        ),
    }
    for role in msgspec.structs.asdict(config.roles):
        settings = config.role(role)
        rules[f"roles.{role}.max_tokens"] = (settings.max_tokens >= 1, "at least 1")
        thinks = settings.thinking == 0 or 1024 <= settings.thinking < settings.max_tokens
        wanted = "0, or at least 1024 and below the role's max_tokens"
        rules[f"roles.{role}.thinking"] = (thinks, wanted)
        rules[f"roles.{role}.timeout_s"] = (settings.timeout_s > 0, "above 0")
        whole = settings.reply == "whole" or role == "code"
        rules[f"roles.{role}.reply"] = (whole, "whole: only the coder works on marked blocks")
    models, planned = config.roles.plan.models, search.team == "plan_code_debug"
    rules["roles.plan.models"] = (
        len(set(models)) == len(models) and (planned or not models),
        "distinct models, and left out where the team has no planner",
    )
    rules["roles.plan.model"] = (
        not (models and config.roles.plan.model),
        "left out where roles.plan.models are given",
    )
    return rules
