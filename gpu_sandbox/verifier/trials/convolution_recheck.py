"""TF32 in convolutions, which PyTorch's default flags grant to a float32 reference (ADR 32).

Whether cuDNN uses it depends on shapes and layouts. Where a candidate is wrong by the strict rules
and the reference convolves, the reference runs once more with operands of float32 convolutions
rounded to TF32, and some times its error is granted. That run is in the reference's own precision:
operands' dtypes matter, and it takes one forward only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_sandbox.runtime.precision import in_tf32
from gpu_sandbox.tensors.pytree import mapped
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.tolerances import DECLARED, TOLERANCES
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task

_SLOWEST_S = 2.0  # A slower forward is not run once more
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
    """Allow in ``expected``, which is of ``case``, the error of TF32 in the reference's
    convolutions. False where that is nothing, or is granted already."""
    if not task.grants_tf32 or task.forward_s > _SLOWEST_S:
        return False
    if any(one.tf32_error for one in expected) or not torch.backends.cudnn.allow_tf32:
        return False
    outputs = _run(task, case)
    if outputs is None or [t.shape for t in outputs] != [one.native.shape for one in expected]:
        return False
    granted = [
        one.by_dtype == TOLERANCES[torch.float32]
        and run.dtype == one.native.dtype
        and one.grant_tf32(run, DECLARED["tf32"])
        for one, run in zip(expected, outputs, strict=True)
    ]
    return any(granted)


def _run(task: Task, case: Case) -> list[torch.Tensor] | None:
    """Run with rounded operands; None where nothing convolves in float32."""
    arguments = mapped(case.arguments, torch.Tensor.clone)
    try:
        with RoundedConvolutions() as convolutions:
            outputs = task.results(task.model, arguments, case)
    except Exception:  # there is no memory, or it is compiled in a way of its own
        return None
    task.grants_tf32 = convolutions.found  # a task without convolutions is run so once
    return outputs if convolutions.found else None


def _is_float32(tensors: Sequence[Any]) -> bool:
    return all(isinstance(t, torch.Tensor) and t.dtype == torch.float32 for t in tensors)
