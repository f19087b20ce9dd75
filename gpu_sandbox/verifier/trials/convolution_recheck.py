"""TF32 in convolutions, which PyTorch's default flags grant to a reference in float32.

Whether cuDNN takes it up depends on shapes and layouts. A candidate that computes the convolution
as another one may get TF32 where the reference happened not to. So where a candidate is wrong by
the strict rule, and the reference convolves, that runs once more with what its float32 convolutions
take rounded to TF32, and what that run is off by is granted. Float32 products are not: by default
PyTorch computes them in full.

The run is in the reference's own precision, not in float64: what rounding the operands costs is ten
times what float32 is off by, the operands' dtypes are those that count, and it takes one forward
only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_sandbox.runtime.precision import in_tf32
from gpu_sandbox.tensors.chunked import distance
from gpu_sandbox.tensors.pytree import mapped
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.rules.error_quantiles import apart
from gpu_sandbox.verifier.numerics.rules.slices import in_both, sound
from gpu_sandbox.verifier.numerics.tolerances import DECLARED, RULES
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task

__all__ = ["RoundedConvolutions", "grant_tf32"]

_SLOWEST_S = 2.0
"""A forward that takes longer is not made once more."""
_ELEMENT = 8
"""Times the largest error of the run, as of the reference's own
(``verifier/numerics/expected.py``)."""
_CONVOLUTIONS = frozenset(
    f"aten::{name}"
    for name in (
        *("convolution", "_convolution", "convolution_overrideable", "_convolution_mode"),
        *("cudnn_convolution", "cudnn_convolution_transpose"),
        *("cudnn_convolution_relu", "cudnn_convolution_add_relu"),
        *("conv1d", "conv2d", "conv3d"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    )
)


class RoundedConvolutions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, inputs and weights of float32 convolutions are rounded to TF32.
    ``found``: there was such a convolution."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        call: Callable[..., Any] = func
        if func.name().partition(".")[0] in _CONVOLUTIONS and _is_float32(args[:2]):
            self.found = True
            args = (*map(in_tf32, args[:2]), *args[2:])
        return call(*args, **(kwargs or {}))


def grant_tf32(task: Task, case: Case, expected: Sequence[Expected]) -> bool:
    """Allow in ``expected``, which is of ``case``, what TF32 in the reference's convolutions costs.
    False where that is nothing, or is granted already."""
    if not task.grants_tf32 or task.forward_s > _SLOWEST_S:
        return False
    if any(one.granted for one in expected) or not torch.backends.cudnn.allow_tf32:
        return False
    outputs = _run(task, case)
    if outputs is None or [t.shape for t in outputs] != [one.native.shape for one in expected]:
        return False
    admitted = [_admit(one, run) for one, run in zip(expected, outputs, strict=True)]
    return any(admitted)


def _run(task: Task, case: Case) -> list[torch.Tensor] | None:
    """None where nothing convolves in float32."""
    arguments = mapped(case.arguments, torch.Tensor.clone)
    try:
        with RoundedConvolutions() as convolutions:
            outputs = task.results(task.model, arguments, case)
    except Exception:  # there is no memory, or it is compiled in a way of its own
        return None
    task.grants_tf32 = convolutions.found  # what has none is asked once
    return outputs if convolutions.found else None


def _admit(one: Expected, run: torch.Tensor) -> bool:
    """Four times what it is off by, as where TF32 is declared: bfloat16 is off by eight times."""
    tf32 = DECLARED["tf32"]
    if one.rule != RULES[torch.float32] or run.dtype != one.native.dtype:
        return False
    beside, run = one.beside_fill(run)
    off, worst = distance(run, beside.truth, beside.least)
    if not 0.0 < off <= tf32.sane:
        return False
    one.granted = off
    one.tolerance = max(one.tolerance, tf32.k * off)
    one.slack = max(one.slack, _ELEMENT * worst)
    most = apart(beside.truth, run)
    if one.bulk is not None and most is not None:
        one.bulk = one.bulk.at_least(most.times(tf32.k))
    if one.columns is not None:
        one.columns = in_both(one.columns, sound(beside.truth, run))
    return True


def _is_float32(tensors: Sequence[Any]) -> bool:
    return all(isinstance(t, torch.Tensor) and t.dtype == torch.float32 for t in tensors)
