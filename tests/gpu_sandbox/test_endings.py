"""Who is stuck in the kernel, and who is only slow to be taken down. Time is a number here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_sandbox.zygote.reaping import Endings

DUE, MOST = 12.0, 100.0


class World:
    """``spent`` of each number, as a function of the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.spent: dict[int, Callable[[float], tuple[int, int]]] = {}

    def endings(self) -> Endings:
        return Endings(
            lambda number: self.spent[number](self.now),
            due_s=DUE,
            most_s=MOST,
            clock=lambda: self.now,
        )

    def late_by(self, endings: Endings, until: float) -> dict[int, float]:
        """When each was first late, looked at as often as is asked for."""
        found: dict[int, float] = {}
        while self.now < until:
            for number in endings.late():
                found.setdefault(number, self.now)
                endings.over(number)
            step = endings.next_s()
            if step is None:
                break
            self.now += step
        return found


@pytest.fixture
def world() -> World:
    return World()


def test_one_of_which_nothing_changes_is_late_at_the_second_look(world: World) -> None:
    world.spent[1] = lambda _: (3, 500)
    endings = world.endings()
    endings.killed(1)
    assert world.late_by(endings, 200.0) == {1: DUE + 1.0}


@pytest.mark.parametrize(
    "spent",
    [lambda now: (240, int(100 * now)), lambda now: (max(0, 240 - int(5 * now)), 7)],
    ids=["processor time", "processes"],
)
def test_one_that_is_taken_down_has_time_but_not_for_ever(
    world: World, spent: Callable[[float], tuple[int, int]]
) -> None:
    until = 48.0
    world.spent[1] = lambda now: spent(min(now, until))
    endings = world.endings()
    endings.killed(1)
    late = world.late_by(endings, 300.0)[1]
    assert until < late <= until + 2.0, "it had stopped changing"
    until = 1e9
    world.now, endings = 0.0, world.endings()
    world.spent[1] = lambda now: (240, int(100 * now))
    endings.killed(1)
    assert MOST <= world.late_by(endings, 300.0)[1] <= MOST + 1.0


def test_each_has_its_own_time(world: World) -> None:
    world.spent = {1: lambda now: (1, int(100 * min(now, 30.0))), 2: lambda _: (1, 0)}
    endings = world.endings()
    endings.killed(1)
    world.now = 5.0
    endings.killed(2)
    late = world.late_by(endings, 200.0)
    assert late[2] == 5.0 + DUE + 1.0
    assert 30.0 < late[1] <= 32.0
    assert endings.next_s() is None


def test_one_that_ends_in_time_was_not_late(world: World) -> None:
    world.spent[1] = lambda _: (1, 0)
    endings = world.endings()
    endings.killed(1)
    assert 1 in endings
    world.now = DUE - 1.0
    assert not endings.over(1)
    assert 1 not in endings
    assert not endings.over(2), "nobody had told it"
