"""The results as Markdown: every figure that the page quotes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from benchmarks.landscape import paper
from benchmarks.landscape.measure import Band, Outcome
from benchmarks.landscape.rates import off_by
from benchmarks.landscape.variants import ABLATIONS, EPSILONS, METHODS, POLICIES, RANKED
from benchmarks.landscape.worlds import WORLDS

__all__ = ["DEFAULT", "Results", "tables"]

DEFAULT = "irregular"


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """By world and variant. ``against_stark`` is the ratio of delivered speedups, paired by
    seed; ``long`` are the methods with a greater budget, in the default world."""

    outcomes: dict[str, dict[str, Outcome]]
    against_stark: dict[str, dict[str, Band]]
    long: dict[str, Outcome]
    long_against_stark: dict[str, Band]


def tables(results: Results) -> str:
    """The whole file."""
    default = results.outcomes[DEFAULT]
    parts = [
        ("Fitted: the paper's Table 2", _fitted(default)),
        ("Not fitted: the paper's Table 1 (over eager, B = 30)", _not_fitted(default)),
        ("B = 1: correct first attempts, by level", _first(default)),
        ("Variants in the default world", _variants(results)),
        ("Methods with a longer budget", _long(results)),
        ("Delivered speedup over STARK's, by world", _worlds(results)),
        ("How far the fit is from Table 2, by world", _fits(results)),
    ]
    return "# The landscape's tables\n\n" + "\n\n".join(
        f"## {title}\n\n" + "\n".join(rows) for title, rows in parts
    )


def _fitted(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    yield from _head("method", "level", "compiled, paper", "here", "correct, paper", "here")
    for method, rates in paper.COMPILED.items():
        for level, seen in outcomes[method].levels.items():
            correct = paper.CORRECT[method][level - 1]
            yield _row(
                method, str(level), _percent(rates[level - 1]), _percent(seen.compiled),
                _percent(correct), _percent(seen.correct),
            )  # fmt: skip
    for method in sorted(set(METHODS) - set(paper.COMPILED)):
        for level, seen in outcomes[method].levels.items():
            yield _row(
                method, str(level), "–", _percent(seen.compiled), "–", _percent(seen.correct)
            )


def _not_fitted(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    yield from _head(
        "method", "level", "success, paper", "here", "Fast1, paper", "here", "speed, paper", "here"
    )
    for method in METHODS:
        for level, seen in outcomes[method].levels.items():
            told = [
                _of(table, method, level) for table in (paper.SUCCESS, paper.FAST_1, paper.SPEED)
            ]
            yield _row(
                method, str(level),
                "–" if told[0] is None else _percent(told[0]), _share(seen.success),
                "–" if told[1] is None else _percent(told[1]), _share(seen.fast_1),
                "–" if told[2] is None else f"{told[2]:.2f}×",
                "–" if seen.speed is None else _times(seen.speed),
            )  # fmt: skip


def _of(table: Mapping[str, paper.Levels], method: str, level: int) -> float | None:
    return table[method][level - 1] if method in table else None


def _first(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    yield from _head("variant", "level 1", "level 2", "level 3")
    for name in ("stark", "no anchors", "one temperature (0.7)", "sampling"):
        yield _row(name, *(_share(seen.first) for seen in outcomes[name].levels.values()))


def _variants(results: Results) -> Iterator[str]:
    yield from _head("variant", "delivered speedup", "over stark", "success", "from the root")
    outcomes, ratios = results.outcomes[DEFAULT], results.against_stark[DEFAULT]
    for group in (METHODS, POLICIES, ABLATIONS, EPSILONS):
        for name in group:
            seen = outcomes[name]
            yield _row(
                name, _times(seen.delivered), _ratio(ratios[name]), _share(seen.success[-1]),
                _percent(seen.from_root),
            )  # fmt: skip


def _long(results: Results) -> Iterator[str]:
    some = next(iter(results.long.values()))
    yield from _head("method", "B = 30", f"B = {some.attempts}", "over stark", "success")
    for name, seen in results.long.items():
        yield _row(
            name, _times(seen.curve[29]), _times(seen.delivered),
            _ratio(results.long_against_stark[name]), _share(seen.success[-1]),
        )  # fmt: skip


def _worlds(results: Results) -> Iterator[str]:
    yield from _head("variant", *WORLDS)
    speeds = [_times(results.outcomes[world]["stark"].delivered) for world in WORLDS]
    yield _row("stark, absolute", *speeds)
    for name in RANKED[1:]:
        yield _row(name, *(_ratio(results.against_stark[world][name]) for world in WORLDS))


def _fits(results: Results) -> Iterator[str]:
    yield from _head("world", *paper.COMPILED)
    for world, outcomes in results.outcomes.items():
        yield _row(world, *(f"{_off(outcomes[name], name):.1f}" for name in paper.COMPILED))


def _off(outcome: Outcome, method: str) -> float:
    """The greatest difference from Table 2, in points."""
    seen = {level: (of.compiled, of.correct) for level, of in outcome.levels.items()}
    return 100 * off_by(seen, method)


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*("---" for _ in names))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _share(band: Band) -> str:
    return f"{100 * band.value:.1f}% ± {50 * (band.high - band.low):.1f}"


def _times(band: Band) -> str:
    return f"{band.value:.2f}× ({band.low:.2f}–{band.high:.2f})"


def _ratio(band: Band) -> str:
    """Bold where the band leaves 1 out."""
    text = f"{band.value:.3f} ({band.low:.3f}–{band.high:.3f})"
    return f"**{text}**" if band.excludes(1.0) else text
