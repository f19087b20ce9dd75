"""What inputs have in common, and what of it is there when they are changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from gpu_sandbox.tensors.pytree import mapped
from gpu_sandbox.verifier.inputs.apply import InputTransform
from gpu_sandbox.verifier.inputs.invariants import Invariants, InvariantsMemo, find_invariants
from gpu_sandbox.verifier.inputs.transforms import Part
from gpu_sandbox.verifier.reference.ulp_perturbation import perturbed

RANDOM = torch.Generator().manual_seed(5)


def uniform(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=RANDOM)


def symmetric() -> torch.Tensor:
    a = uniform(3, 6, 6)
    return a + a.mT


def definite() -> torch.Tensor:
    a = uniform(3, 6, 9) - 0.5
    return a @ a.mT + 0.1 * torch.eye(6)


def distances() -> torch.Tensor:
    points = 10.0 * uniform(2, 64, 2)
    found = torch.exp(-0.5 * torch.cdist(points, points).square()) - 0.5
    assert not torch.equal(found, found.mT)
    return found


def rotations() -> torch.Tensor:
    return torch.linalg.qr(uniform(20, 3, 3) - 0.5).Q


def frames(rows: int, columns: int) -> torch.Tensor:
    return torch.linalg.qr(uniform(20, rows, columns) - 0.5).Q


def poses(rows: int = 4) -> torch.Tensor:
    found = torch.eye(4).repeat(20, 1, 1)
    found[:, :3, :3], found[:, :3, 3] = rotations(), uniform(20, 3) + 0.1
    return found[:, :rows].contiguous()


def yaws(size: float = 1.0) -> torch.Tensor:
    angle = size * (uniform(20) + 0.1)
    found = torch.eye(3).repeat(20, 1, 1)
    found[:, 0, 0], found[:, 0, 1] = angle.cos(), -angle.sin()
    found[:, 1, 0], found[:, 1, 1] = angle.sin(), angle.cos()
    return found


def boxes() -> torch.Tensor:
    begins = uniform(90, 2)
    return torch.cat([begins, begins + uniform(90, 2)], dim=1)


def homogeneous() -> torch.Tensor:
    return torch.cat([uniform(90, 3), torch.ones(90, 1)], dim=1)[:, [0, 3, 1, 2]]


def unit_triangles() -> torch.Tensor:
    return torch.tril(uniform(3, 6, 6), -1) + torch.eye(6)


def correlations() -> torch.Tensor:
    rows = torch.nn.functional.normalize(uniform(3, 6, 9) - 0.5, dim=-1)
    return (rows @ rows.mT).masked_fill(torch.eye(6, dtype=torch.bool), 1.0)


def skew() -> torch.Tensor:
    a = uniform(3, 6, 6)
    return a - a.mT


def rotary() -> torch.Tensor:
    return (8.0 * uniform(9, 6)).repeat(1, 2).cos()


def lengths(dimension: int = -1) -> torch.Tensor:
    return torch.nn.functional.normalize(uniform(5, 7, 4) - 0.5, dim=dimension)


DRAWS: dict[str, tuple[Callable[[], torch.Tensor], Invariants]] = {
    "nothing": (lambda: uniform(6, 6), Invariants()),
    "triangular": (lambda: torch.triu(uniform(6, 6)), Invariants(zeros=True)),
    "symmetric": (symmetric, Invariants(symmetric=True)),
    "symmetric but for rounding": (distances, Invariants(symmetric=True)),
    "not quite symmetric": (lambda: symmetric() + 1e-2 * uniform(3, 6, 6), Invariants()),
    "boxes": (boxes, Invariants(columns=((0, 2), (1, 3)))),
    "few boxes": (lambda: boxes()[:40], Invariants()),
    "rotations": (rotations, Invariants(rotation=3)),
    "poses": (poses, Invariants(zeros=True, rotation=3)),  # its one is known by that
    "poses without a last row": (lambda: poses(3), Invariants(rotation=3)),
    "scaled rotations": (lambda: rotations() * (0.1 + uniform(20, 1, 1)), Invariants(rotation=3)),
    "about one axis": (yaws, Invariants(zeros=True, rotation=3)),
    "homogeneous": (homogeneous, Invariants(ones=True)),
    "unit triangular": (unit_triangles, Invariants(zeros=True, ones=True)),
    "correlations": (correlations, Invariants(ones=True, symmetric=True, definite=True)),
    "ones by chance": (lambda: (uniform(900) * 1.01).clamp(max=1.0), Invariants()),
    "skew": (skew, Invariants(zeros=True, skew=True)),
    "twice": (rotary, Invariants(repeats=6)),
    "pairs": (lambda: (uniform(9, 6)).repeat_interleave(2, -1).bfloat16(), Invariants(repeats=1)),
    "of length one": (lengths, Invariants(equal_sums=(2, 2))),
    "of length one in the middle": (lambda: lengths(1), Invariants(equal_sums=(1, 2))),
    "one of length one": (lambda: lengths()[0, 0], Invariants(equal_sums=(0, 2))),
    "probabilities": (lambda: uniform(5, 99).softmax(-1), Invariants(equal_sums=(1, 1))),
    "causal ones": (
        lambda: (uniform(6, 6).tril() / 2 + torch.eye(6)).log().softmax(-1),
        Invariants(zeros=True, ones=True, equal_sums=(1, 1)),
    ),
    "of modulus one": (
        lambda: torch.polar(torch.ones(7, 5), uniform(7, 5)),
        Invariants(equal_sums=(2, 2)),
    ),
    "log probabilities": (lambda: uniform(5, 99).log_softmax(-1), Invariants(equal_sums=(1, 0))),
    "of length two": (lambda: 2.0 * lengths(), Invariants(equal_sums=(2, 2))),
    "of modulus three": (
        lambda: torch.polar(torch.full((7,), 3.0), uniform(7)),
        Invariants(equal_sums=(1, 2)),
    ),
    "of other lengths each time": (lambda: uniform(1) * lengths(), Invariants()),
    "of about length one": (lambda: uniform(3, 4096).sub(0.5).mul(12**0.5 / 64), Invariants()),
    "unitary": (lambda: torch.linalg.qr(torch.randn(3, 5, 5) * (1 + 1j)).Q, Invariants(rotation=5)),
    "rotations in rows": (lambda: rotations().flatten(1), Invariants(rotation=3, flat=(3, 3))),
    "poses in rows": (lambda: poses(3).flatten(1), Invariants(rotation=3, flat=(3, 4))),
    "tall frames": (lambda: frames(7, 3), Invariants(orthogonal=1)),
    "wide frames": (lambda: 3.0 * frames(7, 3).mT, Invariants(orthogonal=-1)),
    "one frame": (lambda: frames(256, 16)[0], Invariants(orthogonal=1)),
    "long rows": (lambda: torch.randn(2, 1 << 22), Invariants()),
    "nearly frames": (lambda: frames(7, 3) + 1e-2, Invariants()),
    "nearly rotations": (lambda: rotations() + 1e-2, Invariants()),
    "definite": (definite, Invariants(symmetric=True, definite=True)),
    "rising": (lambda: uniform(3, 5).sort(dim=-1).values, Invariants(order=1)),
    "falling": (lambda: uniform(5).sort(descending=True).values, Invariants(order=-1)),
    "mask": (lambda: torch.where(uniform(8, 9) > 0.5, 1.0, 0.0), Invariants(whole=True)),
    "rectified": (lambda: torch.relu(uniform(8, 9) - 0.5), Invariants()),
    "half": (lambda: torch.tril(uniform(4, 4)).half(), Invariants(zeros=True)),
    "all zero": (lambda: torch.zeros(4, 4), Invariants()),
    "one number": (lambda: uniform(1)[0], Invariants()),
    "two": (lambda: uniform(2), Invariants()),
    "integers": (lambda: torch.arange(9), Invariants()),
    "none": (lambda: uniform(0, 3), Invariants()),
    "float8": (lambda: uniform(4, 4).to(torch.float8_e4m3fn), Invariants()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_what_they_have_in_common_is_seen_in_all_draws(name: str) -> None:
    draw, form = DRAWS[name]
    assert find_invariants([draw() for _ in range(3)]) == form


@pytest.mark.parametrize(
    "name",
    [
        "triangular",
        "symmetric",
        "definite",
        "rising",
        "falling",
        "boxes",
        "mask",
        "half",
        "homogeneous",
        "unit triangular",
        "correlations",
        "skew",
        "twice",
        "pairs",
        "of length one",
        "of length one in the middle",
        "probabilities",
        "log probabilities",
        "of length two",
        "scaled rotations",
        "causal ones",
        "rotations",
        "rotations in rows",
        "poses in rows",
        "tall frames",
        "wide frames",
        "one frame",
        "poses",
        "poses without a last row",
    ],
)
@pytest.mark.parametrize("part", ["all", "half", "sparse", "few"])
def test_changed_ones_have_it_too(name: str, part: Part) -> None:
    draw, form = DRAWS[name]
    tensor = draw()
    before = tensor.clone()
    # None comes to zero so. Of half precision one in some hundreds would by negative ones.
    changed = InputTransform(
        lambda t: t + torch.rand(t.shape).to(t.dtype) * 8 + 1, [form], part=part
    )
    got = changed(tensor)
    assert torch.equal(tensor, before), "the drawn one stays as it was"
    if form.zeros:
        assert torch.equal(got == 0, tensor == 0)
    if form.symmetric:
        assert torch.equal(got, got.mT)
    if form.definite:
        assert not torch.linalg.cholesky_ex(got).info.any()
    if form.ones:
        assert torch.equal(got == 1, tensor == 1)
    if form.skew:
        assert torch.equal(got, -got.mT)
    if form.repeats:
        assert find_invariants([got]).repeats == form.repeats
    if form.equal_sums:
        assert find_invariants([got]).equal_sums == form.equal_sums
    if form.orthogonal:
        assert find_invariants([got]).orthogonal == form.orthogonal
    if form.rotation:
        found = find_invariants([got])
        assert (found.rotation, found.flat) == (form.rotation, form.flat)
        lie = [t.unflatten(-1, form.flat) if form.flat else t for t in (got, tensor)]
        signs = (torch.linalg.det(each[..., :3, :3]) for each in lie)
        assert torch.equal(*map(torch.sign, signs)), "what is no mirror becomes none"
    for low, high in form.columns:
        assert bool((got[..., low] <= got[..., high]).all())
    if form.order:
        assert bool((form.order * got.diff(dim=-1) >= 0).all())
    if part == "all" or form.whole:  # or what was chosen is zero
        assert torch.equal(got, tensor) == form.whole


def test_layout_and_what_is_shared_stay() -> None:
    turned, expanded = uniform(4, 8).t(), uniform(8, 1).expand(8, 5)
    x, n = uniform(6, 2), torch.arange(3)
    found = mapped([turned, expanded, x, [x], n], InputTransform(lambda t: t * 64.0, []))
    assert found[0].stride() == turned.stride()
    assert torch.equal(found[0], turned * 64)
    assert found[1].stride() == (1, 0)
    assert found[2] is found[3][0]
    assert found[4] is n


def test_a_half_is_of_each_dimension_and_not_always_the_same_one() -> None:
    ones = torch.ones(12, 20)
    seen = set()
    for _ in range(40):
        got = InputTransform(lambda t: t * 64.0, [], part="half")(ones)
        assert set(got.unique().tolist()) <= {1.0, 64.0}
        rows, columns = (got == 64.0).any(dim=1), (got == 64.0).any(dim=0)
        assert (int(rows.sum()), int(columns.sum())) == (6, 10)
        assert torch.equal(got == 64.0, rows[:, None] & columns)
        seen.add(tuple(got.flatten().tolist()))
    assert len(seen) > 20


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 12])
def test_a_run_is_of_neighbours_and_without_ends(count: int) -> None:
    for _ in range(20):
        got = InputTransform(lambda t: t * 64.0, [], part="run")(torch.ones(count)) == 64.0
        (places,) = got.nonzero(as_tuple=True)
        assert len(places) == max(1, count // 2)
        assert int(places[-1] - places[0]) == len(places) - 1
        if count > 3:
            assert not got[0]
            assert not got[-1]


def test_few_elements_are_one_mostly_and_never_many() -> None:
    ones, counts = torch.ones(100, 200), []
    for _ in range(60):
        got = InputTransform(lambda t: t * 64.0, [], part="few")(ones)
        counts.append(int((got == 64.0).sum()))
        assert int((got == 1.0).sum()) == ones.numel() - counts[-1]
    assert 10 < counts.count(1) < 55
    assert 0 < min(counts) < max(counts) <= ones.numel() // 64


def test_sparse_are_one_in_64_and_one_at_least() -> None:
    ones = torch.ones(100, 200)
    for _ in range(20):
        got = InputTransform(lambda t: t * 64.0, [], part="sparse")(ones) == 64.0
        assert 20000 // 128 < int(got.sum()) < 20000 // 32
    assert (InputTransform(lambda t: t * 64.0, [], part="sparse")(torch.ones(3)) == 64.0).any()


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0)])
def test_next_to_no_elements_have_parts_too(shape: tuple[int, ...]) -> None:
    for part in ("half", "sparse", "few"):
        assert InputTransform(lambda t: t * 2.0, [], part=part)(torch.ones(shape)).shape == shape


def test_complex_ones_are_changed_by_their_parts() -> None:
    def drawn() -> torch.Tensor:
        return torch.complex(uniform(6, 6), uniform(6, 6))

    plain = drawn()
    assert torch.equal(InputTransform(lambda t: t * 64.0, [])(plain), plain * 64.0)
    draws = [one + one.mH for one in (drawn(), drawn(), drawn())]
    form = find_invariants(draws)
    assert form == Invariants(symmetric=True)
    for part in ("all", "half", "few"):
        changed = InputTransform(lambda t: t + torch.rand(t.shape), [form] * 20, part=part)
        found = [changed(draws[0]) for _ in range(20)]
        assert all(torch.equal(got, got.mH) for got in found)
        assert any(not torch.equal(got, draws[0]) for got in found)  # some lie below the diagonal
    zeros = [torch.triu(drawn()) for _ in range(3)]
    got = InputTransform(lambda t: t + 1.0, [find_invariants(zeros)])(zeros[0])
    assert torch.equal(got, torch.triu(got))


def test_it_is_found_out_once() -> None:
    asked: list[int] = []

    def draw(number: int) -> list[torch.Tensor]:
        asked.append(number)
        x = torch.triu(uniform(4, 4))
        return [x, uniform(3, 3), x]

    forms = InvariantsMemo()
    assert forms.of(draw(9), draw) == [Invariants(zeros=True), Invariants()]
    assert forms.of(draw(9), draw) == [Invariants(zeros=True), Invariants()]
    assert asked == [9, 0, 1, 2, 9]


@pytest.mark.parametrize("name", DRAWS)
def test_of_what_is_large_one_draw_tells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_sandbox.verifier.inputs.invariants._LARGEST_BYTES", -1)
    draw, form = DRAWS[name]

    def no_more(number: int) -> list[torch.Tensor]:
        raise AssertionError("that would take as much more memory")

    one = draw()
    (found,) = InvariantsMemo().of([one, one], no_more)
    zeros = form.zeros or name in ("mask", "rectified")
    assert found == Invariants(whole=form.whole, zeros=zeros, order=form.order)


def triangles_with(places: Sequence[tuple[int, int]], dtype: torch.dtype) -> list[torch.Tensor]:
    """Each with one more zero, by chance."""
    draws = [torch.triu(torch.rand(40, 40) + 0.1).to(dtype) for _ in places]
    for draw, place in zip(draws, places, strict=True):
        draw[place] = 0.0
    return draws


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_number_that_is_zero_by_chance_is_no_form_and_hides_none(dtype: torch.dtype) -> None:
    draws = triangles_with([(1, 30), (2, 30), (3, 30)], dtype)
    assert find_invariants(draws) == Invariants(zeros=True)
    got = InputTransform(lambda t: t + 1.0, [Invariants(zeros=True)])(draws[0])
    assert torch.equal(got == 0, draws[0] == 0)
    dense = [d + torch.tril(torch.full_like(d, 0.5), -1) for d in draws]
    assert find_invariants(dense) == Invariants()
    assert find_invariants([*dense[:2], dense[0]]) == Invariants()
    sparse = [torch.rand(100, 100) * (torch.rand(100, 100) > 0.3) for _ in range(3)]
    assert find_invariants(sparse) == Invariants()
    few = [torch.rand(1000, 1000) * (torch.rand(1000, 1000) > 0.01) for _ in range(3)]
    assert find_invariants(few) == Invariants()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_triangles_of_random_numbers_are_seen_whatever_else_is_zero(dtype: torch.dtype) -> None:
    """One number of 256 is, in bfloat16; in float32 one of 16 million, and so half of all triangles
    of 4096 x 4096 had a zero that others had not, and were none."""
    for _ in range(20):
        draws = [torch.triu(torch.rand(64, 64, dtype=dtype)) for _ in range(3)]
        assert find_invariants(draws) == Invariants(zeros=True)
        assert find_invariants([torch.rand(64, 64, dtype=dtype) for _ in range(3)]) == Invariants()


@pytest.mark.parametrize("part", ["all", "half", "sparse", "few"])
def test_what_is_definite_is_no_product_of_two_vectors_any_more(part: Part) -> None:
    """Whoever takes it for that, and a diagonal, is to be wrong."""
    vector = uniform(64, 1)  # where one element of 64 is changed, most rows are
    tensor = vector @ vector.mT + torch.diag(uniform(64) + 0.1)
    form = find_invariants([tensor, tensor + torch.eye(64)])
    assert form.definite
    (got,) = mapped([tensor], InputTransform(lambda t: t * 64.0, [form], part=part))
    off = ~torch.eye(64, dtype=torch.bool)
    values = [
        torch.linalg.svdvals(got[a:b, b:c]) for a, b, c in ((0, 32, 64), (0, 16, 32), (32, 48, 64))
    ]
    if part != "few":
        assert any(float(each[1]) > 1e-3 * float(each[0]) for each in values)
    assert not torch.equal(got[off], tensor[off])
    assert not torch.linalg.cholesky_ex(got).info.any()


def test_its_diagonal_does_not_tell_whether_it_is_changed() -> None:
    tensor = definite()
    form, same = find_invariants([tensor]), 0
    for _ in range(60):
        got = InputTransform(lambda t: t * 64.0, [form], part="half")(tensor)
        assert not torch.allclose(got, tensor)
        diagonals = got.diagonal(dim1=-2, dim2=-1), tensor.diagonal(dim1=-2, dim2=-1)
        same += torch.allclose(*diagonals, rtol=1e-5)
    assert 10 < same < 50


@pytest.mark.parametrize("part", ["all", "half", "sparse", "few"])
def test_rotations_become_any_others(part: Part) -> None:
    """Those of which something is changed; who takes them to be about one axis is to be wrong."""
    tensor = rotations()
    (got,) = mapped(
        [tensor], InputTransform(lambda t: t * 64.0, [find_invariants([tensor])], part=part)
    )
    changed = (got != tensor).flatten(1).any(1)
    assert changed.any()
    assert bool(changed.all()) == (part == "all") or part == "half"
    assert not torch.allclose(got[changed][:, 2], tensor[changed][:, 2], atol=1e-3)


def test_a_pose_has_something_else_beside_it_and_its_last_row() -> None:
    tensor = poses()
    got = InputTransform(lambda t: t * 64.0, [find_invariants([tensor])])(tensor)
    assert torch.equal(got[:, :3, 3], 64.0 * tensor[:, :3, 3])
    assert torch.equal(got[:, 3], tensor[:, 3])


def test_what_turns_about_one_axis_does_so_still_by_any_angle() -> None:
    """Also where all angles are small: who takes them for that is to be wrong."""
    tensor = yaws(1e-3)
    got = InputTransform(lambda t: t * 64.0, [find_invariants([tensor, yaws()])])(tensor)
    assert torch.equal(got == 0, tensor == 0)
    assert torch.allclose(got @ got.mT, torch.eye(3).expand_as(got), atol=1e-6)
    assert float(got[:, 1, 0].abs().mean()) > 0.2


def test_a_pose_that_is_the_origin_leaves_the_others_free() -> None:
    """The first camera is often where all is measured from."""

    def draw() -> torch.Tensor:
        found = poses()
        found[0] = torch.eye(4)
        return found

    tensor = draw()
    got = InputTransform(lambda t: t * 64.0, [find_invariants([tensor, draw(), draw()])])(tensor)
    assert torch.equal(got[0, :3, :3], torch.eye(3))
    assert not torch.isclose(got[1:, :3, :3], tensor[1:, :3, :3], atol=1e-3).flatten(1).all(1).any()


def test_a_mirror_stays_symmetric() -> None:
    def draw() -> torch.Tensor:
        across = torch.nn.functional.normalize(torch.randn(20, 8, 1), dim=1)
        return torch.eye(8) - 2.0 * across @ across.mT

    tensor = draw()
    form = find_invariants([tensor, draw()])
    assert form == Invariants(symmetric=True, rotation=8)
    got = InputTransform(lambda t: t * 64.0, [form])(tensor)
    assert torch.equal(got, got.mT)
    assert torch.allclose(got @ got, torch.eye(8).expand_as(got), atol=1e-5)
    assert not torch.isclose(got, tensor, atol=1e-3).flatten(1).all(1).any()


def test_what_exchanges_axes_stays_as_it_is() -> None:
    tensor = torch.eye(3)[[1, 2, 0]].repeat(4, 1, 1)
    got = InputTransform(lambda t: t * 64.0, [Invariants(zeros=True, rotation=3)])(tensor)
    assert torch.equal(got, tensor)


def test_a_pose_far_away_has_no_columns_in_order() -> None:
    def draw() -> torch.Tensor:
        found = poses()
        found[:, :3, 3] += 2.0
        return found

    assert find_invariants([draw() for _ in range(3)]) == Invariants(zeros=True, rotation=3)


@pytest.mark.parametrize("name", ["definite", "symmetric", "rotations", "poses"])
@pytest.mark.parametrize("steps", [4, -64])
def test_a_nudge_of_what_has_a_form_is_one(name: str, steps: int) -> None:
    draw, form = DRAWS[name]
    tensor = draw()
    furthest = 0.0
    for _ in range(10):  # all the same way: of 128 times once by nothing
        got = InputTransform(lambda t: perturbed(t, steps), [form], slightly=True)(tensor)
        if form.symmetric:
            assert torch.equal(got, got.mT)
        furthest = max(furthest, float((got - tensor).abs().max()))
    assert 0.0 < furthest < 1e-4 * float(tensor.abs().max())


def test_some_inputs_only_are_changed_each_that_is_there_twice_once() -> None:
    x, y, z = uniform(4), uniform(4), uniform(4)
    found = mapped([x, y, x, z], InputTransform(lambda t: t * 64.0, [], only=frozenset({0, 2})))
    assert found[0] is found[2]
    assert torch.equal(found[0], 64.0 * x)
    assert found[1] is y
    assert torch.equal(found[3], 64.0 * z)


def test_columns_are_put_in_order_along_a_chain() -> None:
    x = uniform(500, 4).sort(dim=-1).values[:, [2, 0, 3, 1]].unsqueeze(0)
    form = find_invariants([x])
    assert set(form.columns) == {(1, 3), (3, 0), (0, 2), (1, 0), (3, 2), (1, 2)}
    got = InputTransform(lambda t: torch.rand(t.shape), [form])(x)
    assert bool((got[..., [1, 3, 0, 2]].diff(dim=-1) >= 0).all())
    assert not torch.equal(got, x)


@pytest.mark.parametrize("part", ["all", "half", "few"])
def test_rows_of_length_one_turn_elsewhere(part: Part) -> None:
    """However they were to be changed: those that are all the larger are no others."""
    tensor, furthest = lengths(), 0.0
    for _ in range(20):  # of a single row, which may turn by little
        (got,) = mapped(
            [tensor], InputTransform(lambda t: t * 64.0, [find_invariants([tensor])], part=part)
        )
        off = (got - tensor).norm(dim=-1)
        assert bool((off > 0).all()) == (part == "all")
        furthest = max(furthest, float(off.max()))
    assert furthest > 0.3


def test_of_probabilities_none_becomes_one_that_was_none() -> None:
    tensor = (uniform(50, 8) * (uniform(50, 8) > 0.5) + 1e-3 * torch.eye(8).repeat(7, 1)[:50]).abs()
    tensor = tensor / tensor.sum(-1, keepdim=True)
    got = InputTransform(lambda t: t * 64.0, [find_invariants([tensor])])(tensor)
    assert torch.equal(got == 0, tensor == 0)
    assert torch.allclose(got.sum(-1), torch.ones(50))
    assert float((got - tensor).abs().max()) > 0.1


def test_numbers_of_modulus_one_have_any_angle() -> None:
    tensor = torch.polar(torch.ones(400), 0.01 * uniform(400))
    got = InputTransform(lambda t: t * 64.0, [find_invariants([tensor])])(tensor)
    assert torch.allclose(got.abs(), torch.ones(400))
    assert float(got.real.min()) < -0.9


def test_what_is_banded_with_a_diagonal_of_ones_is_changed() -> None:
    def draw() -> torch.Tensor:
        return torch.eye(8) + torch.diag(0.4 * uniform(7), 1)

    draws = [(d + d.mT) / 2 for d in (draw(), draw(), draw())]
    form = find_invariants(draws)
    assert form == Invariants(zeros=True, ones=True, symmetric=True, definite=True)
    found = [InputTransform(lambda t: t * 64.0, [form])(draws[0]) for _ in range(9)]
    assert all(torch.equal(got.diagonal(), torch.ones(8)) for got in found)
    assert not any(torch.linalg.cholesky_ex(got).info.any() for got in found)
    assert any(not torch.allclose(got, draws[0], atol=0.02) for got in found)


def test_log_probabilities_may_be_of_none() -> None:
    tensor = uniform(20, 8).log_softmax(-1)
    tensor[:, 3] = -torch.inf
    tensor = tensor.log_softmax(-1)
    form = find_invariants([tensor, tensor.flip(0)])
    assert form == Invariants(equal_sums=(1, 0))
    got = InputTransform(lambda t: t * 64.0, [form])(tensor)
    assert bool((got[:, 3] == -torch.inf).all())
    assert torch.allclose(got.exp().sum(-1), torch.ones(20))
    assert not torch.isclose(got, tensor, atol=0.1).all(1).any()


def test_what_is_scaled_is_of_another_scale_and_a_multiple_of_one_is_changed() -> None:
    tensor = torch.eye(3) * (1.0 + uniform(20, 1, 1))
    got = InputTransform(lambda t: t * 64.0, [find_invariants([tensor, 2.0 * tensor])])(tensor)
    assert torch.equal(got == 0, tensor == 0)
    assert not torch.isclose(got, tensor, rtol=1e-3).flatten(1).all(1).any()
