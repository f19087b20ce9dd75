"""What an exception's message is cut to."""

from __future__ import annotations

import pytest
import torch

from gpu_sandbox.runtime.candidate_traceback import one_line


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


def test_of_torchscript_the_reason_is_told() -> None:
    x = torch.zeros(3, 4)
    scripted = torch.jit.CompilationUnit("def multiplied(x, y):\n    return torch.mm(x, y)\n")
    with pytest.raises(RuntimeError) as caught:
        scripted.multiplied(x, x)
    told = one_line(caught.value)
    assert told.startswith("RuntimeError: The following operation failed in the TorchScript")
    assert told.endswith("… RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 3x4)")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("at 2:8:\n    y = foo(x)\n        ^\nNameError('foo')", "at 2:8: … NameError('foo')"),
        ("one:", "one:"),
        ("one\ntwo", "one"),
        ("", ""),
    ],
)
def test_a_line_that_leads_to_the_last_is_told_with_it(message: str, told: str) -> None:
    assert one_line(ValueError(message)).removeprefix("ValueError:").strip() == told
