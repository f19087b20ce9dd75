"""Changed inputs among those of timed calls: only such as the reference can take."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from gpu_sandbox.verifier.inputs.transforms import Transform
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials import hidden_cases as surprises
from gpu_sandbox.verifier.trials.hidden_cases import HiddenCases

TASK = """
import torch

RUNS = []

class Model(torch.nn.Module):
    def forward(self, x):
        RUNS.append(x)
        {forward}
        return x + 1

DRAWS = []

def get_inputs():
    DRAWS.append(1)
    return [torch.rand(64, 8)]
"""
TAKES_ALL = "pass"
SELDOM_RAISES = "assert not (x[0] > 1).any()"
SELDOM_NOT_FINITE = "x = torch.where(x[0] > 1, torch.nan, x)"
RAISES = "assert not (x > 1).any()"


def set_up(tmp_path: Path, forward: str) -> tuple[Task, Case, HiddenCases]:
    """A task with one way of changing its inputs: to more than they ever are."""
    path = tmp_path / "task.py"
    path.write_text(TASK.format(forward=forward))
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    task.passed_transforms.append(Transform("more", lambda t: t + 2, first.margins))
    return task, first, HiddenCases(task, first)


def changed(case: Case) -> bool:
    return bool((case.tensors[0] > 1).any())


@pytest.mark.parametrize("forward", [TAKES_ALL, SELDOM_RAISES, SELDOM_NOT_FINITE])
def test_of_many_calls_one_is_changed(tmp_path: Path, forward: str) -> None:
    _, first, source = set_up(tmp_path, forward)
    places = set()
    for index in range(60):
        found = source.among(16, "timed", index)
        assert len(found) <= 1
        for number, case in found.items():
            places.add(number)
            assert changed(case)
            assert not changed_where_it_must_not(case, forward)
            assert case.is_like(first)
            assert not case.expected
    assert len(places) > 5


def changed_where_it_must_not(case: Case, forward: str) -> bool:
    return forward != TAKES_ALL and bool((case.tensors[0][0] > 1).any())


@pytest.mark.parametrize("forward", [TAKES_ALL, SELDOM_RAISES])
def test_of_few_calls_all_are_in_one_release_of_four_by_chance(
    tmp_path: Path, forward: str
) -> None:
    _, _, source = set_up(tmp_path, forward)
    sizes = [len(source.among(2, "timed", index)) for index in range(240)]
    assert set(sizes) == {0, 2}
    turns = [number for number, size in enumerate(sizes) if size]
    assert 35 < len(turns) < 80
    assert {turn % 4 for turn in turns} == set(range(4))
    assert len({b - a for a, b in itertools.pairwise(turns)}) > 5, "the next one may be one, too"


@pytest.mark.parametrize("calls", [1, 3, 16])
def test_there_are_none_where_the_reference_takes_none(tmp_path: Path, calls: int) -> None:
    _, _, source = set_up(tmp_path, RAISES)
    assert [source.among(calls, "timed", index) for index in range(20)] == [{}] * 20


@pytest.mark.parametrize(("calls", "kept_bytes"), [(1, 1 << 30), (3, 1 << 30), (3, 3000)])
def test_what_it_takes_to_find_them_does_not_tell_which_release_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int, kept_bytes: int
) -> None:
    """The inputs that are drawn in place of those that are not found here are drawn anyway; the
    reference runs before each fourth, or before each where there is too much to keep."""
    monkeypatch.setattr(surprises, "_MAX_STOCK_BYTES", kept_bytes)
    task, _, source = set_up(tmp_path, TAKES_ALL)
    module = task._file._module
    source.among(calls, "timed", 0)  # forms are found out
    for index in range(1, 4):
        source.among(calls, "timed", index)
    mine, work = set(), set()
    for index in range(4, 160):
        draws, runs = len(module.DRAWS), len(module.RUNS)
        found = source.among(calls, "timed", index)
        drawn = len(module.DRAWS) - draws + calls - len(found)
        mine.update([index % 4] if found else [])
        work.add((index % 4 == 0, drawn, len(module.RUNS) - runs))
    assert len(mine) > 3
    if kept_bytes > 3000:
        assert work == {(True, 3 * calls, 2 * calls), (False, calls, 0)}
    else:
        assert work == {(first, 2 * calls, calls) for first in (True, False)}


def test_there_are_none_before_there_were_trials(tmp_path: Path) -> None:
    task, _, source = set_up(tmp_path, TAKES_ALL)
    task.passed_transforms.clear()
    assert source.among(16, "alone", 0) == {}


@pytest.mark.parametrize("calls", [1, 3, 16])
def test_what_is_large_is_changed_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    monkeypatch.setattr(surprises, "_MAX_STOCK_BYTES", 100)
    task, _, source = set_up(tmp_path, TAKES_ALL)
    module = task._file._module
    task.invariants_of(task.draw("form").tensors)
    draws, runs = len(module.DRAWS), len(module.RUNS)
    sizes = []
    for index in range(40):
        assert source.among(calls, "timed", index) == {}
        cases = [task.draw("timed", index * calls + number) for number in range(calls)]
        number = source.change(cases)
        assert [case for case in cases if changed(case)] == [c for c in cases if c.transform]
        assert sum(map(changed, cases)) == number
        sizes.append(number)
    assert len(module.DRAWS) - draws == 40 * calls
    assert len(module.RUNS) == runs
    if calls < 8:
        assert set(sizes) == {0, calls}
        assert 1 < sizes.count(calls) < 25
    else:
        assert sizes == [1] * 40


def test_what_the_task_keeps_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surprises, "_MAX_STOCK_BYTES", 100)
    _, first, source = set_up(tmp_path, TAKES_ALL)
    before = first.tensors[0].clone()
    assert [source.change([first]) for _ in range(10)] == [0] * 10
    assert torch.equal(first.tensors[0], before)
    assert first.transform is None


INTERVALS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, begin, end):
        return torch.sqrt(end - begin) * x

def get_inputs():
    begin = torch.rand(64, 8)
    return [torch.rand(64, 8), begin, begin + 0.1 * torch.rand(64, 8)]
"""


@pytest.mark.parametrize("calls", [2, 16])
def test_where_inputs_have_to_do_with_each_other_some_are_changed(
    tmp_path: Path, calls: int
) -> None:
    path = tmp_path / "task.py"
    path.write_text(INTERVALS)
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    task.passed_transforms.append(Transform("times 64", lambda t: t * 64.0, first.margins))
    source, found = HiddenCases(task, first), []
    for index in range(50):
        found += source.among(calls, "timed", index).values()
    assert len(found) == task.hidden_cases > 10
    assert all(
        case.transform and case.transform.only for case in found if "half" in case.description
    )
    assert all(
        "some inputs only" in case.description for case in found if "half" in case.description
    )


def test_of_what_is_large_some_inputs_only_are_changed_if_trials_took_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surprises, "_MAX_STOCK_BYTES", 100)
    path = tmp_path / "task.py"
    path.write_text(INTERVALS)
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    way = Transform("more", lambda t: t + 2.0, [], only=frozenset({0}))
    task.solve(first, exact=True)
    task.passed_transforms.append(way._replace(margins=first.margins))
    source = HiddenCases(task, first)
    for index in range(10):
        case = task.draw("timed", index)
        before = [t.clone() for t in case.tensors]
        changed = source.change([case] * 8)
        same = [torch.equal(a, b) for a, b in zip(case.tensors, before, strict=True)]
        assert (changed, same) == (1, [False, True, True])


def test_each_part_is_among_five_and_what_came_does_not_tell_the_last(tmp_path: Path) -> None:
    """What is large enough to overflow is one element in 64, and no half."""
    task, first, _ = set_up(tmp_path, TAKES_ALL)
    way = task.passed_transforms[0]
    task.passed_transforms[:] = [way, way, way, way._replace(name="much more", allows_half=False)]
    last = set()
    for _ in range(120):
        source, parts = HiddenCases(task, first), []
        for index in range(5):
            (case,) = source.among(16, "timed", index).values()
            assert case.transform
            parts.append(case.transform.part)
            assert (case.transform.name == "much more") or case.transform.part != "sparse"
            assert case.transform.part != "half" or case.transform.allows_half
        assert set(parts) == {"few", "half", "sparse"}
        last.add((len(set(parts[:-1])), parts[-1]))
    assert {part for before, part in last if before == 3} == {"few", "half", "sparse"}
