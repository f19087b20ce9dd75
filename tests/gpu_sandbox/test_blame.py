"""What an exception's message is cut to."""

from __future__ import annotations

import pytest
import torch

from gpu_sandbox.child.blame import one_line


def test_a_tensor_is_named_and_not_printed() -> None:
    shapes = [
        torch.ones(3),
        torch.ones(20, 20, dtype=torch.float16),
        torch.ones(2).requires_grad_(),
    ]
    shapes.append(torch.ones(40, requires_grad=True) * 2)
    for tensor in shapes:
        told = one_line(ValueError(f"got {tensor}, and [1] beside {tensor}: too large"))
        assert told == "ValueError: got tensor(…), and [1] beside tensor(…): too large"


@pytest.mark.parametrize("many", ["tensor([", "tensor([]", "],a=b", "],\n"])
def test_tensors_that_do_not_end_are_text(many: str) -> None:
    """Read in time, and not in the square of it."""
    told = one_line(ValueError(f"tensor([1.]) and tensor([{many * 20_000}"))
    assert told.startswith("ValueError: tensor(…) and tensor([" + many.rstrip()[:4])
