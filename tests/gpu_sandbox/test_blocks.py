"""What is changed in place, and what is left alone."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import torch

from gpu_sandbox.verifier.inputs.apply_in_place import change_in_place
from gpu_sandbox.verifier.inputs.invariants import Invariants
from gpu_sandbox.verifier.inputs.transforms import Part


def more(tensor: torch.Tensor) -> torch.Tensor:
    return tensor + 64.0


def plain(*tensors: torch.Tensor) -> list[tuple[torch.Tensor, Invariants]]:
    return [(t, Invariants()) for t in tensors]


def test_half_of_each_dimension() -> None:
    seen = set()
    for _ in range(60):
        x, n = torch.zeros(6, 1, 10), torch.arange(4)
        assert change_in_place(plain(x, n), [], more, "half")
        places = (x == 64.0).nonzero()
        rows, _, columns = (sorted(set(each.tolist())) for each in places.unbind(1))
        assert (len(rows), len(columns), len(places)) == (3, 5, 15)
        assert {b - a for a, b in itertools.pairwise(columns)} in ({1}, {2})
        assert torch.equal(n, torch.arange(4))
        seen.add((tuple(rows), tuple(columns)))
    assert len(seen) > 15


def test_a_few() -> None:
    x = torch.zeros(40, 50).t()
    counts = []
    for _ in range(40):
        x.zero_()
        assert change_in_place(plain(x), [], more, "few")
        counts.append(int((x == 64.0).sum()))
    assert 5 < counts.count(1) < 38
    assert 0 < min(counts) < max(counts) <= 2000 // 64


def test_one_in_64_of_the_largest_dimension() -> None:
    seen = set()
    for _ in range(40):
        x = torch.zeros(6, 640)
        assert change_in_place(plain(x), [], more, "sparse")
        places = (x == 64.0).nonzero()
        columns = sorted(set(places[:, 1].tolist()))
        assert (len(columns), len(places)) == (10, 60)
        seen.add(columns[0])
    assert len(seen) > 15
    x = torch.zeros(3, 2)
    assert change_in_place(plain(x), [], more, "sparse")
    assert int((x == 64.0).sum()) == 2


@pytest.mark.parametrize("part", ["half", "sparse", "few"])
def test_memory_that_is_somebody_elses_too_is_left_alone(part: Part) -> None:
    x, y = torch.zeros(8, 8), torch.zeros(8, 8)
    for tensors, kept in (
        ([x[:4]], [x]),
        ([x[0].expand(8, 8)], []),
        ([x.view(torch.int32), x], []),
        ([torch.arange(9)], []),
        ([], []),
    ):
        assert not change_in_place(plain(*tensors), kept, more, part)
    assert not x.any()
    assert change_in_place(plain(x[:4], y, y.t()), [x], more, part)
    assert not x.any()
    assert set(y.unique().tolist()) <= {0.0, 64.0}


@pytest.mark.parametrize("part", ["all", "half", "run", "sparse", "few"])
def test_they_keep_the_form_that_is_known(part: Part) -> None:
    below = torch.ones(70, 70).tril()
    for _ in range(10):
        x, whole, rising = below.clone(), torch.ones(3, 9), torch.arange(9.0)
        forms = [
            (x, Invariants(zeros=True)),
            (whole, Invariants(whole=True)),
            (rising, Invariants(order=1)),
        ]
        assert change_in_place(forms, [], more, part)
        assert set(x.unique().tolist()) <= {0.0, 1.0, 65.0}
        assert torch.equal(x == 0, below == 0)
        assert part == "few" or not torch.equal(x, below)
        assert torch.equal(whole, torch.ones(3, 9))
        assert torch.equal(rising, torch.arange(9.0))
    assert not change_in_place(forms[1:], [], more, part)


_IMPORTS_NOTHING = """
import sys
import torch
import gpu_sandbox.verifier.main
from gpu_sandbox.verifier.inputs.apply_in_place import change_in_place
from gpu_sandbox.verifier.inputs.invariants import Invariants
from gpu_sandbox.verifier.numerics.error_report import ErrorReport

before = set(sys.modules)
for part in ("half", "sparse", "few", "all", "run"):
    for _ in range(8):
        x = torch.ones(64, 10, 10)
        assert change_in_place([(x, Invariants(zeros=True))], [], lambda t: t + 1.0, part)
shown = ErrorReport(x)
shown.add(x.view(640, 10), x.view(640, 10), x.view(640, 10) == 2.0, 0)
shown.text()
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.process
def test_nothing_is_imported_in_the_middle_of_what_is_timed() -> None:
    """A function of torch that imports sympy when it is first called made the first verdict on
    gigabytes two seconds longer, and once ``timed_out``."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS_NOTHING], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.strip() == ""
