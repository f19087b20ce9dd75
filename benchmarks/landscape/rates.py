"""Fitting the stand-ins to the paper's Table 2: 18 logits to its 18 rates, for each world.

Sampling's rates fix what one agent does from the reference. Reflexion's then fix how often
it mends its own failure, and STARK's what planner and coder do. How STARK's rates are shared
between coder and debugger the paper does not say: the debugger is assumed to be better than
the agent that mends its own by ``Skill.debug_edge``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from multiprocessing.pool import Pool
from pathlib import Path

import msgspec

from benchmarks.landscape import paper
from benchmarks.landscape.agents import Odds, Rates
from benchmarks.landscape.runs import Batch, Runs, level_of, run_all
from benchmarks.landscape.worlds import WORLDS

__all__ = ["FITTED", "compiled_and_correct", "fit_all", "load", "off_by", "save"]

FITTED = Path(__file__).parent / "rates.json"
"""The fitted rates by world; they go with ``worlds``."""

_START = Odds(compiles=(2.0, 2.0, 2.0), passes=(0.0, 0.0, -1.0))
_FITTED_TO = {"single": ("sampling", 1.2), "mend": ("reflexion", 2.0), "team": ("stark", 1.6)}
"""In this order: mending is fitted when single is known, and team when both are. The number
lengthens the steps: only some of a method's attempts are made with the odds that it fits."""
_ATTEMPTS = 30
_ROUNDS, _LAST_ROUNDS = 4, 3
_CLOSE = 0.005
_MOST = 5.0
"""A logit beyond this says that the rate can't be reached."""


def fit_all(pool: Pool, *, seeds: int, progress: Callable[[str], None]) -> dict[str, Rates]:
    """The rates of every world, each fit beginning where the one before ended."""
    rates, fitted = Rates(single=_START, mend=_START, team=_START), {}
    for world in WORLDS:
        fitted[world] = rates = _fit(world, rates, pool, seeds=seeds, progress=progress)
    return fitted


def _fit(
    world: str, rates: Rates, pool: Pool, *, seeds: int, progress: Callable[[str], None]
) -> Rates:
    """On a few of the seeds, then on all of them, until every rate is close enough or the
    rounds are over. What can't be reached is left as near as it got."""
    for who, (method, step) in _FITTED_TO.items():
        if who == "team" and WORLDS[world].equal:
            return msgspec.structs.replace(rates, team=rates.single)
        for some, rounds in ((seeds // 4, _ROUNDS), (seeds, _LAST_ROUNDS)):
            for _ in range(rounds):
                batch = Batch(
                    world=world, variant=method, attempts=_ATTEMPTS, seeds=some, rates=rates
                )
                [runs] = run_all([batch], pool)
                seen = compiled_and_correct(runs)
                worst = off_by(seen, method)
                progress(f"{world}: {method}, {some} seeds, off by {100 * worst:.2f} points")
                if worst < _CLOSE:
                    break
                odds = _stepped(getattr(rates, who), seen, method, step)
                rates = msgspec.structs.replace(rates, **{who: odds})
    return rates


def compiled_and_correct(runs: Runs) -> dict[int, tuple[float, float]]:
    """The shares of all attempts by level, as in Table 2. An abandoned one is neither."""
    shares = {}
    for level in (1, 2, 3):
        outcomes = "".join(
            course.outcomes for seed, course in enumerate(runs) if level_of(seed) == level
        )
        correct = outcomes.count("c") / len(outcomes)
        shares[level] = correct + outcomes.count("w") / len(outcomes), correct
    return shares


def load() -> dict[str, Rates]:
    """The fitted rates by world."""
    return msgspec.json.decode(FITTED.read_bytes(), type=dict[str, Rates])


def save(rates: dict[str, Rates]) -> None:
    rounded = msgspec.json.decode(msgspec.json.encode(rates))
    for world in rounded.values():
        for odds in world.values():
            for kind, logits in odds.items():
                odds[kind] = [round(logit, 4) for logit in logits]
    FITTED.write_bytes(msgspec.json.format(msgspec.json.encode(rounded)) + b"\n")


def off_by(seen: dict[int, tuple[float, float]], method: str) -> float:
    """The greatest difference from Table 2."""
    return max(
        max(abs(compiled - paper.COMPILED[method][level - 1]),
            abs(correct - paper.CORRECT[method][level - 1]))
        for level, (compiled, correct) in seen.items()
    )  # fmt: skip


def _stepped(odds: Odds, seen: dict[int, tuple[float, float]], method: str, step: float) -> Odds:
    compiles, passes = list(odds.compiles), list(odds.passes)
    for level, (compiled, correct) in seen.items():
        at = level - 1
        wanted = paper.COMPILED[method][at]
        compiles[at] += step * (_logit(wanted) - _logit(compiled))
        passes[at] += step * (
            _logit(paper.CORRECT[method][at] / wanted) - _logit(correct / compiled)
        )
    return msgspec.structs.replace(odds, compiles=_bounded(compiles), passes=_bounded(passes))


def _bounded(logits: list[float]) -> tuple[float, ...]:
    return tuple(max(-_MOST, min(_MOST, logit)) for logit in logits)


def _logit(share: float) -> float:
    share = min(max(share, 0.001), 0.999)
    return log(share / (1 - share))
