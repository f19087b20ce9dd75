"""Modules as training leaves them: ones and zeros of a new module are drawn at random.

A norm's weight is ones in every new module, so outputs do not show whether a candidate uses it.
Constants are replaced as they are made, before ``__init__`` folds, packs or copies them. Values
depend on the number of elements and on the constant alone: a candidate may rename its parameters
and create them in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.nn.modules.module import register_module_buffer_registration_hook
from torch.overrides import TorchFunctionMode

from gpu_sandbox.accelerator.lookup import accelerator_of
from gpu_sandbox.ipc.model_messages import Constant
from gpu_sandbox.tensors.memory_layout import overlapping
from gpu_sandbox.tensors.pytree import odd

T = TypeVar("T")
_RUNNING = ("running_mean", "running_var")  # last part of the name of ``torch.nn``'s statistics
_SPREAD = 0.25  # of the constant, or of 1 where that is 0: signs and variances stay positive
_SAME = 1e-6  # relative: a constant of float32 is another number in float64
_DIGITS = 4  # significant ones of a scalar that somebody wrote, and no generator drew


def constant_state(model: Any) -> dict[str, torch.Tensor]:
    """Parameters and running statistics by full name whose elements are all one number.

    Frozen parameters are constants of the method, unless all are frozen. A scalar counts if its
    value has few digits: otherwise it was drawn."""
    too = any_frozen(model)
    held = [(n, p) for n, p in model.named_parameters() if p.requires_grad or too]
    held += [(n, b) for n, b in model.named_buffers() if n.rpartition(".")[2] in _RUNNING]
    return {name: t for name, t in held if constant_of(t) is not None}


def any_frozen(model: Any) -> bool:
    """Whether frozen parameters count: no parameter of the model takes a gradient."""
    return not any(p.requires_grad for p in model.parameters())


def constant_of(tensor: torch.Tensor) -> float | None:
    """The finite number that all elements of a floating point tensor are; None otherwise."""
    if not tensor.is_floating_point() or odd(tensor) or not tensor.numel():
        return None
    tensor = tensor.detach()
    first, last = tensor[(0,) * tensor.dim()], tensor[(-1,) * tensor.dim()]
    value = float(first)
    if not math.isfinite(value) or (tensor.numel() == 1 and not _written(tensor, value)):
        return None
    return value if value == float(last) and bool((tensor == first).all()) else None


def _written(tensor: torch.Tensor, value: float) -> bool:
    return _rounded(float(f"{value:.{_DIGITS}g}"), tensor.dtype) == value


def _rounded(value: float, dtype: torch.dtype) -> float:
    return torch.tensor(value, dtype=torch.float64).to(dtype).item()


def trained_values(constant: Constant) -> torch.Tensor:
    """Values in float32 about the constant; about zero smaller ones, where sums over many elements
    would grow."""
    generator = torch.Generator().manual_seed(constant.seed)
    drawn = torch.rand(constant.elements, generator=generator).mul_(2.0).sub_(1.0)
    if constant.value:
        return drawn.mul_(_SPREAD).add_(1.0).mul_(constant.value)
    return drawn.mul_(min(_SPREAD, constant.elements**-0.25))


def construct_trained(
    make: Callable[[], T], constants: Sequence[Constant], *, broad: bool = False, frozen: bool
) -> T:
    """Run ``make`` with these constants drawn as they are made. ``broad``: also in tensors that are
    no parameters; ``frozen``: also in parameters that take no gradient."""
    with _Drawing(constants, broad=broad, frozen=frozen) as drawing:
        made = make()
    drawing.finish(made)
    return made


class _Drawing(TorchFunctionMode):
    """Sees each tensor that a torch function makes or writes, and each parameter."""

    def __init__(self, constants: Sequence[Constant], *, broad: bool, frozen: bool) -> None:
        super().__init__()
        self._constants: dict[int, list[Constant]] = {}
        for constant in constants:
            self._constants.setdefault(constant.elements, []).append(constant)
        self._broad, self._frozen = broad, frozen
        self._watched: dict[int, torch.Tensor] = {}  # by address, and kept, so that it stays theirs

    def __enter__(self) -> _Drawing:
        self._new = torch.nn.Parameter.__dict__["__new__"]
        self._hook = register_module_buffer_registration_hook(self._registered)
        new = torch.nn.Parameter.__new__

        def watched(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
            made = new(cls, data, requires_grad)
            if self._counts(made):
                self._watch(made)
            return made

        torch.nn.Parameter.__new__ = staticmethod(watched)  # type: ignore[method-assign]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        torch.nn.Parameter.__new__ = self._new  # type: ignore[method-assign]
        self._hook.remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for value in (output, *args[:1], *(kwargs or {}).values()):
            if type(value) in (torch.Tensor, torch.nn.Parameter):  # others may have no numbers
                self._look(value)
        return output

    def finish(self, model: Any) -> None:
        """Draw parameters that were made unseen."""
        for parameter in model.parameters() if isinstance(model, torch.nn.Module) else ():
            if self._counts(parameter):
                self._watch(parameter)

    def _registered(self, module: Any, name: str, buffer: torch.Tensor | None) -> None:
        if name in _RUNNING and buffer is not None:
            self._watch(buffer)

    def _watch(self, tensor: torch.Tensor) -> None:
        with torch._C.DisableTorchFunction():
            if tensor.numel() in self._constants and not odd(tensor):
                self._watched[tensor.untyped_storage().data_ptr()] = tensor
                self._draw(tensor)

    def _look(self, tensor: torch.Tensor) -> None:
        with torch._C.DisableTorchFunction():
            if tensor.numel() not in self._constants or odd(tensor):
                return
            parameter = isinstance(tensor, torch.nn.Parameter) and self._counts(tensor)
            address = tensor.untyped_storage().data_ptr()
            if self._broad or parameter or address in self._watched:
                self._draw(tensor)

    def _counts(self, parameter: torch.Tensor) -> bool:
        return parameter.requires_grad or self._frozen

    def _draw(self, tensor: torch.Tensor) -> None:
        """Draw one of the constants. Not while a graph is captured, which reading would end."""
        if accelerator_of(tensor.device).is_capturing():
            return
        value = constant_of(tensor)
        if value is None or overlapping(tensor):
            return
        for constant in self._constants[tensor.numel()]:
            if math.isclose(_rounded(constant.value, tensor.dtype), value, rel_tol=_SAME):
                with torch.no_grad():
                    tensor.data.copy_(trained_values(constant).view(tensor.shape))
                return
