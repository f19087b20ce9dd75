"""When plain values of an output are as they should be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpu_sandbox.tensors.pytree import pack, same_values, whole_numbers


def unlike(expected: Any, got: Any, *usual: float) -> str | None:
    trees = [pack(value, [], pickling=False) for value in (expected, got)]
    return same_values(trees[0], trees[1], usual)


@pytest.mark.parametrize(
    ("expected", "got", "usual"),
    [
        (2.5, 2.5 + 2e-4, 0.0),
        (1e-6, 3e-5, 1.0),  # a sum that comes out next to nothing, of many that do not
        (0.0, 1e-8, 0.0),
        (math.inf, math.inf, 0.0),
        (-math.inf, -math.inf, 1.0),
        (math.nan, math.nan, 1.0),
        (7, 7, 0.0),
        ("a", "a", 0.0),
    ],
)
def test_as_near_as_another_order_of_adding_comes(expected: Any, got: Any, usual: float) -> None:
    assert unlike(expected, got, usual) is None


@pytest.mark.parametrize(
    ("expected", "got", "usual"),
    [
        (2.5, 2.5 + 3e-4, 0.0),
        (2.5, math.inf, 1.0),
        (2.5, -math.inf, 1.0),
        (2.5, math.nan, 1.0),
        (2.5, 1e300, 1.0),
        (math.inf, 2.5, 1.0),
        (math.inf, -math.inf, 1.0),
        (math.nan, 2.5, 1.0),
        (2.3e-10, 0.0, 2e-10),  # joule, say
        (2.3e-10, 0.0, 0.0),
        (2.3e-10, 2.4e-10, 2e-10),
        (1e200, 2e200, math.inf),
        (7, 8, 100.0),
        (7, 7.0, 0.0),
        (True, 1, 0.0),
    ],
)
def test_what_is_something_else(expected: Any, got: Any, usual: float) -> None:
    assert unlike(expected, got, usual) is not None


def test_whole_numbers_may_be_looked_at_apart() -> None:
    values = [3, True, 2.5, {"a": 7, "b": "x"}, None, [0]]
    others = [4, True, 2.5, {"a": -7, "b": "x"}, None, [1]]
    tree, other = (pack(each, [], pickling=False) for each in (values, others))
    assert whole_numbers(tree) == [3, 7, 0]
    assert same_values(tree, other) == "expected 3, got 4"
    assert same_values(tree, other, but_whole=True) is None
    for unlike in ([3, False], [3, 1]):
        tree, other = (pack(each, [], pickling=False) for each in ([3, True], unlike))
        assert same_values(tree, other, but_whole=True) is not None
