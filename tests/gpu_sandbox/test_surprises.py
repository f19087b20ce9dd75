"""Changed inputs among those of timed calls: only such as the reference can take."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from gpu_sandbox.child import surprises
from gpu_sandbox.child.cases import Altered, Case, Seeds
from gpu_sandbox.child.reference import Task
from gpu_sandbox.child.surprises import Surprises

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


def set_up(tmp_path: Path, forward: str) -> tuple[Task, Case, Surprises]:
    """A task with one way of changing its inputs: to more than they ever are."""
    path = tmp_path / "task.py"
    path.write_text(TASK.format(forward=forward))
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    task.altered.append(Altered("more", lambda t: t + 2, first.margins))
    return task, first, Surprises(task, first)


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
def test_of_few_calls_all_are_in_one_release_of_five(tmp_path: Path, forward: str) -> None:
    _, _, source = set_up(tmp_path, forward)
    turns: Counter[int] = Counter()
    for block in range(40):
        sizes = [len(source.among(2, "timed", 5 * block + turn)) for turn in range(5)]
        assert sorted(sizes) in ([0, 0, 0, 0, 2], [0] * 5)
        turns.update([sizes.index(2)] if 2 in sizes else [])
    assert set(turns) == set(range(5))
    assert turns.total() > 30


@pytest.mark.parametrize("calls", [1, 3, 16])
def test_there_are_none_where_the_reference_takes_none(tmp_path: Path, calls: int) -> None:
    _, _, source = set_up(tmp_path, RAISES)
    assert [source.among(calls, "timed", index) for index in range(20)] == [{}] * 20


@pytest.mark.parametrize(("calls", "kept_bytes"), [(1, 1 << 30), (3, 1 << 30), (3, 3000)])
def test_what_it_takes_to_find_them_does_not_tell_which_release_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int, kept_bytes: int
) -> None:
    """The inputs that are drawn in place of those that are not found here are drawn anyway; the
    reference runs before the first of five, or before each where there is too much to keep."""
    monkeypatch.setattr(surprises, "_KEPT_BYTES", kept_bytes)
    task, _, source = set_up(tmp_path, TAKES_ALL)
    module = task._module
    source.among(calls, "timed", 0)  # forms are found out
    for index in range(1, 5):
        source.among(calls, "timed", index)
    mine, work = set(), set()
    for index in range(5, 80):
        draws, runs = len(module.DRAWS), len(module.RUNS)
        found = source.among(calls, "timed", index)
        drawn = len(module.DRAWS) - draws + calls - len(found)
        mine.update([index % 5] if found else [])
        work.add((index % 5 == 0, drawn, len(module.RUNS) - runs))
    assert len(mine) > 3
    if kept_bytes > 3000:
        assert work == {(True, 2 * calls, calls), (False, calls, 0)}
    else:
        assert work == {(first, 2 * calls, calls) for first in (True, False)}


def test_there_are_none_before_there_were_trials(tmp_path: Path) -> None:
    task, _, source = set_up(tmp_path, TAKES_ALL)
    task.altered.clear()
    assert source.among(16, "alone", 0) == {}


@pytest.mark.parametrize("calls", [1, 3, 16])
def test_what_is_large_is_changed_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    monkeypatch.setattr(surprises, "_KEPT_BYTES", 100)
    task, _, source = set_up(tmp_path, TAKES_ALL)
    module = task._module
    draws, runs = len(module.DRAWS), len(module.RUNS)
    sizes = []
    for index in range(40):
        assert source.among(calls, "timed", index) == {}
        cases = [task.draw("timed", index * calls + number) for number in range(calls)]
        number = source.change(cases)
        assert [case for case in cases if changed(case)] == [c for c in cases if c.altered]
        assert sum(map(changed, cases)) == number
        sizes.append(number)
    assert len(module.DRAWS) - draws == 40 * calls
    assert len(module.RUNS) == runs
    if calls < 8:
        blocks = [sorted(sizes[n : n + 5]) for n in range(0, 40, 5)]
        assert blocks == [[0, 0, 0, 0, calls]] * 8
    else:
        assert sizes == [1] * 40


def test_what_the_task_keeps_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surprises, "_KEPT_BYTES", 100)
    _, first, source = set_up(tmp_path, TAKES_ALL)
    before = first.tensors[0].clone()
    assert [source.change([first]) for _ in range(10)] == [0] * 10
    assert torch.equal(first.tensors[0], before)
    assert first.altered is None


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
    task.altered.append(Altered("times 64", lambda t: t * 64.0, first.margins))
    source, found = Surprises(task, first), []
    for index in range(50):
        found += source.among(calls, "timed", index).values()
    assert len(found) == task.surprised > 10
    assert all(case.altered and case.altered.only for case in found if "half" in case.changed)
    assert all("some inputs only" in case.changed for case in found if "half" in case.changed)


def test_of_what_is_large_some_inputs_only_are_changed_if_trials_took_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surprises, "_KEPT_BYTES", 100)
    path = tmp_path / "task.py"
    path.write_text(INTERVALS)
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    way = Altered("more", lambda t: t + 2.0, [], only=frozenset({0}))
    task.solve(first, exact=True)
    task.altered.append(way._replace(margins=first.margins))
    source = Surprises(task, first)
    for index in range(10):
        case = task.draw("timed", index)
        before = [t.clone() for t in case.tensors]
        changed = source.change([case] * 8)
        same = [torch.equal(a, b) for a, b in zip(case.tensors, before, strict=True)]
        assert (changed, same) == (1, [False, True, True])


def test_what_overflows_when_it_is_large_enough_is_met_early(tmp_path: Path) -> None:
    """Of a few releases one has one element in 64 that is so: all in one that every part is in."""
    task, first, _ = set_up(tmp_path, TAKES_ALL)
    way = task.altered[0]
    task.altered[:] = [way, way, way, way._replace(told="much more", halved=False)]
    for _ in range(10):
        source, parts = Surprises(task, first), []
        for index in range(6):
            (case,) = source.among(16, "timed", index).values()
            assert case.altered
            parts.append(case.altered.part)
            assert (case.altered.told == "much more") or case.altered.part != "sparse"
            assert case.altered.part != "half" or case.altered.halved
        assert sorted(parts[:3]) == sorted(parts[3:]) == ["few", "half", "sparse"]
