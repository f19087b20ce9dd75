"""Which tensors share memory, and which lie in the order of their indices."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.tensors import memory_layout as extents
from gpu_sandbox.tensors.memory_layout import (
    dense,
    extent_at,
    extent_of,
    in_order,
    overlapping,
    sharing,
)
from tests.thorough import examples

X = torch.empty(6, 5)
PRODUCT = torch.empty(2, 7, 12)


@pytest.mark.parametrize(
    ("begins", "sizes", "found"),
    [
        ([1, 9, 17], [8, 8, 8], [False, False, False]),
        ([1, 8], [8, 8], [True, True]),
        ([17, 1, 21], [8, 100, 8], [True, True, True]),
        ([1, 1, 1], [8, 0, 0], [False, False, False]),
        ([33, 1, 41], [8, 8, 8], [False, False, False]),
        ([0, 0], [8, 8], [False, False]),
        ([], [], []),
    ],
)
def test_stretches_that_have_bytes_in_common(
    begins: list[int], sizes: list[int], found: list[bool]
) -> None:
    """Address 0 is nowhere."""
    ways = zip(begins, sizes, strict=True)
    assert sharing([extent_at(begin, [size], [1], 1) for begin, size in ways]) == found


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (X, True),
        (X[::2], True),
        (X[:, 1:4], True),
        (PRODUCT[:, 1:, 3:6], True),
        (torch.empty(6, 1, 5)[:, :, :1], True),
        (torch.tensor(1.0), True),
        (torch.empty(2, 3, 1, 1, 4).to(memory_format=torch.contiguous_format), True),
        (X.t(), False),
        (X[:, ::2], False),
        (PRODUCT.permute(0, 2, 1), False),
        (torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last), False),
        (X[:1].expand(6, 5), False),
        (torch.empty(20).unfold(0, 4, 3), False),
    ],
)
def test_what_lies_in_the_order_of_its_indices(tensor: torch.Tensor, *, expected: bool) -> None:
    assert in_order(tensor.shape, tensor.stride()) == expected
    if expected:
        assert not overlapping(tensor)


def found(*tensors: torch.Tensor) -> list[bool]:
    return sharing([extent_of(t) for t in tensors])


def test_parts_of_one_tensor_are_told_apart() -> None:
    q, k, v = PRODUCT[..., :6], PRODUCT[..., 6:9], PRODUCT[..., 9:]
    assert found(q, k, v) == [False] * 3
    assert found(q, PRODUCT[..., 5:9], v) == [True, True, False]
    assert found(q, q) == [True, True]
    assert found(PRODUCT[:, :-1, :3], PRODUCT[:, 1:, :3]) == [True, True]
    assert found(PRODUCT[:, :-1, :3], PRODUCT[:, 1:, 3:6]) == [False, False]
    assert found(PRODUCT, X) == [False, False]
    assert found(PRODUCT[0], PRODUCT[1], PRODUCT) == [True] * 3


def test_of_what_can_not_be_told_apart_all_counts_as_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flat = torch.empty(100)
    assert found(flat[:40].view(8, 5)[:, :2], flat[3:51].view(8, 6)[:, :2]) == [True, True]
    columns = torch.empty(4, 2000).split(2, dim=1)
    assert found(*columns[:300]) == [False] * 300
    monkeypatch.setattr(extents, "_MAX_PAIRS", 10)
    assert any(found(*columns[:300]))


@given(st.data())
@settings(deadline=None, max_examples=examples(300))
def test_parts_share_memory_exactly_where_they_have_an_element_in_common(
    data: st.DataObject,
) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    whole = torch.arange(torch.Size(shape).numel()).view(shape)

    def part() -> torch.Tensor:
        taken = whole
        for dimension, size in enumerate(shape):
            begin = data.draw(st.integers(0, size - 1))
            length = data.draw(st.integers(1, size - begin))
            taken = taken.narrow(dimension, begin, length)
        return taken

    parts = [part() for _ in range(data.draw(st.integers(2, 4)))]
    held = [set(p.flatten().tolist()) for p in parts]
    expected = [False] * len(parts)
    for one, other in itertools.combinations(range(len(parts)), 2):
        if held[one] & held[other]:
            expected[one] = expected[other] = True
    seen = found(*parts)
    exactly = all(p.shape[d] > 1 for p in parts for d in range(p.dim()))
    if exactly or not any(seen):
        assert seen == expected
    else:
        assert all(s or not e for s, e in zip(seen, expected, strict=True))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.integers(0, 4), max_size=4).flatmap(
        lambda shape: st.tuples(
            st.just(shape), st.lists(st.integers(-1, 16), min_size=len(shape), max_size=len(shape))
        )
    )
)
def test_what_is_dense_has_an_element_at_each_place(lies: tuple[list[int], list[int]]) -> None:
    shape, stride = lies
    indices = itertools.product(*map(range, shape))
    at = sorted(sum(i * step for i, step in zip(index, stride, strict=True)) for index in indices)
    assert dense(shape, stride) == (bool(at) and at == list(range(len(at))))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_any_order_of_dimensions_may_be_dense(order: tuple[int, ...]) -> None:
    turned = torch.empty(3, 4, 5).permute(order)
    assert dense(turned.shape, turned.stride())
    cut = turned[:, 1:]
    assert dense(cut.shape, cut.stride()) == (order[1] == 0)
