"""Suppress down-casts, so that the float64 reference stays float64 throughout.

A float64 run that rounds where the reference does makes the same error, and charges a candidate
that rounds less. So casts to 16 and 32 bits become copies in float64, sums in a named type are
taken in float64, and tensors that a forward makes are widened then. Casts to eight bits stay, and
autocast leaves float64 alone by itself. Random numbers: see ``float64_rng.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gpu_sandbox.verifier.reference.float64_rng import DRAWS

_HALF = (torch.float16, torch.bfloat16)
_WIDE = dict.fromkeys((*_HALF, torch.float32), torch.float64) | {torch.complex64: torch.complex128}
_NAMED: dict[Any, torch.dtype] = {
    torch.Tensor.half: torch.float16,
    torch.Tensor.bfloat16: torch.bfloat16,
    torch.Tensor.float: torch.float32,
    torch.Tensor.cfloat: torch.complex64,  # type: ignore[attr-defined]
}
_AS_BITS = (torch.Tensor.view, torch.frombuffer)
_MADE = (
    *(torch.zeros, torch.ones, torch.full, torch.empty, torch.eye, torch.tensor),
    *(torch.arange, torch.linspace, torch.logspace, torch.scalar_tensor, torch.as_tensor),
    *(torch.rand, torch.randn, torch.zeros_like, torch.ones_like, torch.full_like),
    *(torch.empty_like, torch.Tensor.new_zeros, torch.Tensor.new_ones, torch.Tensor.new_full),
    *(torch.Tensor.new_empty, torch.Tensor.new_tensor),
    *(torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window),
    torch.kaiser_window,
)


class Float64Casts(TorchFunctionMode):
    """While it is entered. ``own``: the type that the reference computes with. ``half_precision``:
    something was to be rounded to 16 bits, or autocast would have computed with so many."""

    def __init__(self, device: torch.device, own: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.half_precision = False
        self._device = device
        self._own = own

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if func in DRAWS:
            return DRAWS[func](self._own, *args, **given)
        if func in _NAMED:
            given["dtype"], func = _NAMED[func], torch.Tensor.to
        if func is torch.Tensor.type and len(args) == 2:
            args = (args[0], getattr(args[1], "dtype", args[1]))  # torch.HalfTensor has one
        if func in _MADE:
            return self._widened(func(*args, **given))
        named = [value for value in (*args, *given.values()) if _is_narrow(value)]
        named = [] if func in _AS_BITS else named
        self.half_precision = self.half_precision or self._is_rounding(args, named)
        if not named:
            return func(*args, **given)
        wide = {name: _wider(value) for name, value in given.items()}
        found = func(*map(_wider, args), **wide)
        return found.clone() if args and found is args[0] else found

    def _widened(self, made: torch.Tensor) -> torch.Tensor:
        self.half_precision = self.half_precision or made.dtype in _HALF
        wide = _WIDE.get(made.dtype)
        return made if wide is None else made.to(wide)

    def _is_rounding(self, args: Sequence[Any], named: Sequence[torch.dtype]) -> bool:
        """Whether the call would round to 16 bits; a cast of integers rounds nothing."""
        if named:
            whole = args and isinstance(args[0], torch.Tensor) and not args[0].is_floating_point()
            return named[0] in _HALF and not whole
        kind = self._device.type
        return torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) in _HALF


def _is_narrow(value: Any) -> bool:
    return isinstance(value, torch.dtype) and value in _WIDE


def _wider(value: Any) -> Any:
    return _WIDE[value] if _is_narrow(value) else value
