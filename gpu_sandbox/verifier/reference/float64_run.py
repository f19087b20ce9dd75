"""The reference in float64, where the task runs in it and memory suffices: the truth of outputs."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch

from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.runtime.precision import rounded
from gpu_sandbox.tensors.chunked import distance
from gpu_sandbox.tensors.pytree import mapped
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.numerics.half_precision_reference import half_precision_share
from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES, tolerance_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.float64_casts import Float64Casts

_BYTES_CPU = 1 << 30
_COPIES = 3  # of model and inputs, that must fit in what is free for it

_SLOWEST_S = 4.0  # of the first run: a verdict makes twenty, and some GPUs are slow in float64
_ABOUT = 2.0  # so many times more or less is about as much
_HALF = (torch.float16, torch.bfloat16)

Outputs: TypeAlias = Sequence[torch.Tensor]
Run: TypeAlias = Callable[[Any, Any, Case], list[Any]]  # output tensors


class Float64Run:
    """Float64 runs of one model. ``used``: one succeeded; ``failed``: the last one raised
    ``LinAlgError`` where others had not. ``half_precision``: the reference computes in 16 bits,
    and takes or returns more."""

    def __init__(self, model: Any, device: torch.device, precision: Precision) -> None:
        self.used = self.failed = self.half_precision = False
        self._model = model
        self._device = device
        self._precision: Precision = precision
        self._wide: Any = None
        self._rough: Any = None
        self._tried = False
        self._casts: AbstractContextManager[Any] = nullcontext()

    def outputs(
        self, case: Case, run: Run, native: Outputs = ()
    ) -> tuple[list[Any] | None, list[Any] | None]:
        """Run in float64, and again with inputs and weights rounded to the declared precision, if
        that is less than float32. ``native``: outputs of the own run, the first time."""
        first, self._tried, self.failed = not self._tried, True, False
        if not first and self._wide is None:
            return None, None
        try:
            truth = self._first(case, run, native) if first else self._run(case, run)
        except torch.OutOfMemoryError:  # of a candidate's doing, maybe: of this case only
            return None, None
        except Exception as error:  # of the matrix itself, or for want of memory that is taken
            self.failed = self.used and isinstance(error, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
            return None, None
        if truth is None:
            return None, None
        self.used = True
        return truth, self._of_rounded(case, run) if self._precision != "float32" else None

    def _first(self, case: Case, run: Run, native: Outputs) -> list[Any] | None:
        """Run without down-casts. If that does not explain the reference's own run, then with its
        casts as they are, if that is nearer: it reads their bits, say, or torch takes another path
        while functions are intercepted."""
        wider = Float64Casts(self._device, _own_dtype(self._model, case))
        wide = self._attempt(wider, case, run)
        if wide is not None:
            self.half_precision = wider.half_precision or any(
                t.dtype in _HALF for t in self._all(case)
            )
            self.half_precision = self.half_precision and not self._draws_others(
                case, run, native, wide
            )
            if _explains(wide, native, half_precision=self.half_precision):
                return wide
        half_precision, self.half_precision = self.half_precision, False
        plain = self._attempt(nullcontext(), case, run)
        if wide is None or (plain is not None and _off(plain, native) < _off(wide, native)):
            self._wide = None if plain is None else self._wide
            return plain
        self.half_precision, self._casts = half_precision, wider
        self._wide = self._widened(case)
        return wide

    def _attempt(
        self, casts: AbstractContextManager[Any], case: Case, run: Run
    ) -> list[Any] | None:
        """Run once; None if it fails (it names its dtypes, say), or takes long."""
        self._casts, self._wide = casts, self._widened(case)
        if self._wide is None:
            return None
        began = time.perf_counter()
        try:
            found = self._run(case, run)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            return None
        return found if time.perf_counter() - began < _SLOWEST_S else None

    def _run(self, case: Case, run: Run) -> list[Any]:
        with self._casts:
            return run(self._wide, mapped(case.arguments, _doubled), case)

    def _draws_others(self, case: Case, run: Run, native: Outputs, wide: list[Any]) -> bool:
        """Whether it differs from the own run by about as much as under another seed: then it draws
        other numbers in float64, which is no rounding."""
        if _explains(wide, native, half_precision=False):
            return False
        other = copy.copy(case)
        other.forward_seed += 1
        self._wide, used = self._widened(case), self._wide  # which may remember what it was given
        off, drawn = _off(wide, native), _off(wide, self._run(other, run))
        self._wide = used
        return off / _ABOUT <= drawn <= off * _ABOUT

    def _of_rounded(self, case: Case, run: Run) -> list[Any]:
        if self._rough is None:
            self._rough = copy.deepcopy(self._wide)
            for tensor, kept in zip(
                _parameters_and_buffers(self._model),
                _parameters_and_buffers(self._rough),
                strict=True,
            ):
                kept.data.copy_(rounded(tensor.data, self._precision))
        arguments = mapped(case.arguments, lambda t: rounded(t.clone(), self._precision))
        with self._casts:
            return run(self._rough, arguments, case)

    def _all(self, case: Case) -> list[torch.Tensor]:
        return [*case.tensors, *_parameters_and_buffers(self._model)]

    def _widened(self, case: Case) -> Any:
        needed = _COPIES * sum(t.numel() * 8 for t in self._all(case))
        free = backend_of(self._device).free_bytes()
        if needed > (_BYTES_CPU if free is None else free // 4):
            return None
        return copy.deepcopy(self._model).double()


def _explains(truth: Outputs, native: Outputs, *, half_precision: bool) -> bool:
    """Whether the own run differs by rounding alone."""
    if len(truth) != len(native):
        return False
    for exact, mine in zip(truth, native, strict=True):
        by_dtype = tolerance_of(mine)
        if exact.shape != mine.shape:
            return False
        if by_dtype is not None and mine.numel():
            own = distance(mine, exact)[0]
            if not (
                own <= by_dtype.max_own_error
                or (half_precision and half_precision_share(exact, mine, own))
            ):
                return False
    return True


def _off(truth: Outputs, native: Outputs) -> float:
    """Distance of the outputs that differ most."""
    if [t.shape for t in truth] != [t.shape for t in native]:
        return math.inf
    pairs = zip(truth, native, strict=True)
    return max(
        (distance(n, t)[0] for t, n in pairs if n.dtype in TOLERANCES and n.numel()),
        default=0.0,
    )


def _own_dtype(model: Any, case: Case) -> torch.dtype:
    """The type that it computes with: that of its inputs, or weights."""
    tensors = [t for t in (*case.tensors, *_parameters_and_buffers(model)) if t.is_floating_point()]
    return next((t.dtype for t in tensors if t.dtype != torch.float64), torch.float32)


def _parameters_and_buffers(model: Any) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to float64: the reference may change it."""
    if tensor.is_complex():
        return tensor.to(torch.complex128, copy=True)
    return tensor.to(torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)
