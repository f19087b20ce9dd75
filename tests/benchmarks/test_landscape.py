"""The search simulator: what its landscape promises, and that the real core searches it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.landscape.__main__ import run_worlds
from benchmarks.landscape.agents import Agents, Odds, Rates, Skill, Work
from benchmarks.landscape.figures import draw_all
from benchmarks.landscape.measure import compared, delivered, measured
from benchmarks.landscape.paper import COMPILED, CORRECT
from benchmarks.landscape.rates import compiled_and_correct, load
from benchmarks.landscape.runs import Batch, Runs, run, workers
from benchmarks.landscape.search import Course, search
from benchmarks.landscape.tables import tables
from benchmarks.landscape.terrain import REFERENCE, Kernel, Landscape, Task
from benchmarks.landscape.variants import VARIANTS, config_of
from benchmarks.landscape.worlds import WORLDS
from tests.thorough import examples

seeds = st.integers(0, 10**6)
levels = st.integers(1, 3)


def odds(logit: float) -> Odds:
    return Odds(compiles=(logit,) * 3, passes=(logit,) * 3)


def rates(logit: float) -> Rates:
    return Rates(single=odds(logit), mend=odds(logit), team=odds(logit))


def task(seed: int = 0, level: int = 1, **landscape: object) -> Task:
    return Task(Landscape(**landscape), seed=seed, level=level)  # type: ignore[arg-type]


def searched(
    *assignments: str, seed: int = 0, logit: float = 1.0, attempts: int = 30, **landscape: object
) -> Course:
    config = config_of([f"search.seed={seed}", *assignments], attempts=attempts)
    found = task(seed, **landscape)
    return search(found, Agents(found, Skill(unusable=0.0), rates(logit), seed=seed), config)


def work(start: Kernel, *shown: Kernel, attempt: int = 1) -> Work:
    return Work(attempt=attempt, start=start, shown=shown, temperature=0.1)


def batch(variant: str, count: int) -> Runs:
    asked = Batch(
        world="irregular", variant=variant, attempts=30, seeds=count, rates=load()["irregular"]
    )
    return run(asked, range(count))


# -- the landscape ----------------------------------------------------------------------


@given(seeds, levels)
def test_each_rung_is_as_fast_as_its_ladder_says_and_none_beats_the_fastest(
    seed: int, level: int
) -> None:
    found = task(seed, level)
    assert found.runtime(REFERENCE) == 1.0
    for family, ladder in enumerate(found.ladders):
        times = [
            found.runtime(Kernel(family=family, depth=depth)) for depth in range(len(ladder) + 1)
        ]
        for gain, before, after in zip(ladder, times, times[1:], strict=False):
            assert (after < before) == (gain > 0)
        assert times[-1] < times[0]
        assert min(times) >= found.fastest() * (1 - 1e-9)


def test_the_root_dominates_and_fast_entries_promise_less() -> None:
    def promise_of(**landscape: object) -> tuple[float, float, float]:
        tasks = [task(seed, **landscape) for seed in range(300)]
        families = [pair for one in tasks for pair in zip(one.entries, one.ladders, strict=True)]
        fast = [sum(ladder) for entry, ladder in families if entry < 0]
        slow = [sum(ladder) for entry, ladder in families if entry >= 0]
        return len(slow) / len(families), sum(fast) / len(fast), sum(slow) / len(slow)

    dominated, fast, slow = promise_of()
    assert 0.7 < dominated < 0.83
    assert slow > fast + 0.4
    _, fast, slow = promise_of(deceit=0.0)
    assert abs(slow - fast) < 0.1


def test_valleys_are_as_common_as_they_are_set_to_be() -> None:
    valleys = sum(gain < 0 for seed in range(300) for la in task(seed).ladders for gain in la)
    assert 0.36 < valleys / (300 * 6 * 3) < 0.44
    assert not any(gain < 0 for ladder in task(valley=0.0).ladders for gain in ladder)


@given(seeds)
def test_nothing_comes_of_a_dead_end_or_a_hopeless_bug(seed: int) -> None:
    found = task(seed, dead=1.0)
    agents = Agents(found, Skill(), rates(50.0), seed=seed)
    start = Kernel(family=0)
    child = agents.write(work(start), Kernel(family=0, depth=1), coder=True, anchors=True)
    assert child.bug
    assert child.hopeless
    assert agents.mend(work(child), debugger=True).bug
    fresh = agents.write(work(REFERENCE), start, coder=True, anchors=True)
    assert not fresh.bug


@given(seeds, st.floats(-3, 3), st.floats(0, 3))
def test_better_odds_never_turn_a_correct_kernel_into_a_failing_one(
    seed: int, logit: float, more: float
) -> None:
    found, wanted = task(seed), Kernel(family=1)
    asked = work(REFERENCE, attempt=seed % 30)

    def correct(at: float) -> bool:
        agents = Agents(found, Skill(), rates(at), seed=seed)
        return not agents.write(asked, wanted, coder=False, anchors=False).bug

    assert correct(logit + more) >= correct(logit)


@given(seeds)
def test_what_a_window_shows_is_not_proposed_again_by_who_always_avoids(seed: int) -> None:
    agents = Agents(task(seed), Skill(avoid=1.0, leap=0.0), rates(0.0), seed=seed)
    shown = [Kernel(family=family) for family in (0, 1, 2, 4, 5)]
    assert agents.propose(work(REFERENCE, *shown)).family == 3


# -- the search -------------------------------------------------------------------------


@settings(max_examples=examples(10), deadline=None)
@given(seeds, st.sampled_from(sorted(VARIANTS)))
def test_a_search_is_its_seed_and_a_smaller_budget_is_its_beginning(
    seed: int, variant: str
) -> None:
    course = searched(*VARIANTS[variant], seed=seed)
    assert course == searched(*VARIANTS[variant], seed=seed)
    short = searched(*VARIANTS[variant], seed=seed, attempts=10)
    assert short == Course(
        best=course.best[:10], outcomes=course.outcomes[:10], parents=course.parents[:10]
    )
    assert all(parent < attempt for attempt, parent in enumerate(course.parents, 1))


def test_every_variant_makes_all_its_attempts() -> None:
    for assignments in VARIANTS.values():
        course = searched(*assignments)
        assert len(course.outcomes) == len(course.best) == len(course.parents) == 30


def test_the_core_searches_by_its_own_rules() -> None:
    assert set(searched("search.method=sampling").parents) == {0}
    assert searched("search.method=reflexion").parents == list(range(30))
    assert searched().parents.count(0) <= 5
    # Where nothing is faster than the reference, greed stays at the root: root dominance.
    slow = {"entry": (3.0, 3.0, 3.0), "entry_spread": 0.0}
    assert set(searched("search.policy=greedy", **slow).parents) == {0}
    assert searched(**slow).parents.count(0) <= 5


class _Watching(Agents):
    """Remembers what roles were shown."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.shown: list[Sequence[Kernel]] = []

    def propose(self, work: Work) -> Kernel:
        self.shown.append(work.shown)
        return super().propose(work)


@pytest.mark.parametrize(("windows", "most"), [("true", 4), ("false", 0)])
def test_agents_see_what_the_core_shows_them(windows: str, most: int) -> None:
    # Five in all, the selected node and the root among them; at the root that is one node.
    found = task()
    agents = _Watching(found, Skill(), rates(1.0), seed=0)
    search(found, agents, config_of([f"search.windows={windows}"], attempts=30))
    assert max(len(shown) for shown in agents.shown) == most


# -- the results ------------------------------------------------------------------------


def test_a_sample_of_the_searches_has_the_papers_rates() -> None:
    for method in ("sampling", "stark"):
        for level, (compiled, correct) in compiled_and_correct(batch(method, 150)).items():
            assert compiled == pytest.approx(COMPILED[method][level - 1], abs=0.07)
            assert correct == pytest.approx(CORRECT[method][level - 1], abs=0.1)


def test_speedups_only_grow_and_a_variant_equals_itself() -> None:
    runs, other = batch("stark", 12), batch("sampling", 12)
    logs = delivered(runs)
    assert (logs >= 0).all()
    assert (logs[:, 1:] >= logs[:, :-1]).all()
    assert msgspec.structs.astuple(compared(runs, runs)) == (1.0, 1.0, 1.0)
    there, back = compared(runs, other), compared(other, runs)
    assert there.value * back.value == pytest.approx(1, abs=1e-3)
    assert measured(runs).curve[-1].low <= measured(runs).delivered.value


@pytest.mark.process
def test_a_small_run_writes_results_tables_and_the_same_figures_again(tmp_path: Path) -> None:
    with workers(1) as pool:
        results = run_worlds(pool, seeds=3, elsewhere=3)
    assert set(results.outcomes) == set(WORLDS)
    text = tables(results)
    assert all(f"| {name} |" in text for name in VARIANTS)
    assert msgspec.json.decode(msgspec.json.encode(results), type=type(results)) == results
    for folder in (tmp_path / "once", tmp_path / "again"):
        folder.mkdir()
        draw_all(results, folder)
    figures = sorted(path.name for path in (tmp_path / "once").iterdir())
    assert "methods.svg" in figures
    for name in figures:
        once = (tmp_path / "once" / name).read_bytes()
        assert once == (tmp_path / "again" / name).read_bytes()
        assert len(once) < 100_000
