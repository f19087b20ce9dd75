"""The same forward in float64, where the task allows it and memory suffices: the truth that outputs
are held against, and how far the reference's own precision is from it."""

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
from gpu_sandbox.verifier.numerics.half_precision_reference import lowered
from gpu_sandbox.verifier.numerics.tolerances import RULES
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.float64_casts import Wider

__all__ = ["Exact"]

_BYTES_CPU = 1 << 30
_COPIES = 3
"""Of model and inputs, that must fit in what is free for it."""

_SLOWEST_S = 4.0
"""Of the first such run: a verdict makes some twenty, and a GPU may have hardly any float64."""
_ABOUT = 2.0
"""So many times more or less is about as much."""
_HALF = (torch.float16, torch.bfloat16)

Outputs: TypeAlias = Sequence[torch.Tensor]
Run: TypeAlias = Callable[[Any, Any, Case], list[Any]]
"""Of a model, on arguments, under the case's seed: its output tensors."""


class Exact:
    """Of one model. ``used``: there was a run that did; ``failed``: in the last one a matrix had
    not what it takes, where others had. ``lowers``: the reference computes in 16 bits what comes
    in more, or comes in so many and leaves in more."""

    def __init__(self, model: Any, device: torch.device, precision: Precision) -> None:
        self.used = self.failed = self.lowers = False
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
        """In float64, and the same of inputs and weights that are rounded to the declared
        precision, where that is less than float32. ``native``: what the reference's own run gave,
        the first time."""
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
        """With casts that keep what they are given. If that does not explain the reference's own
        run, then with its casts as they are, if that is nearer: it looks at their bits, say, or
        torch goes another way while its functions are looked at."""
        wider = Wider(self._device, _own(self._model, case))
        wide = self._attempt(wider, case, run)
        if wide is not None:
            self.lowers = wider.lowers or any(t.dtype in _HALF for t in self._all(case))
            self.lowers = self.lowers and not self._draws_others(case, run, native, wide)
            if _explains(wide, native, lowers=self.lowers):
                return wide
        lowers, self.lowers = self.lowers, False
        plain = self._attempt(nullcontext(), case, run)
        if wide is None or (plain is not None and _off(plain, native) < _off(wide, native)):
            self._wide = None if plain is None else self._wide
            return plain
        self.lowers, self._casts = lowers, wider
        self._wide = self._widened(case)
        return wide

    def _attempt(
        self, casts: AbstractContextManager[Any], case: Case, run: Run
    ) -> list[Any] | None:
        """None if it fails (it names its dtypes: then its own precision must do), or takes long."""
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
        """Whether it is off from its own run by about what another seed makes of it: then it draws
        other numbers in float64, and that is no rounding."""
        if _explains(wide, native, lowers=False):
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
            for tensor, kept in zip(_held(self._model), _held(self._rough), strict=True):
                kept.data.copy_(rounded(tensor.data, self._precision))
        arguments = mapped(case.arguments, lambda t: rounded(t.clone(), self._precision))
        with self._casts:
            return run(self._rough, arguments, case)

    def _all(self, case: Case) -> list[torch.Tensor]:
        return [*case.tensors, *_held(self._model)]

    def _widened(self, case: Case) -> Any:
        needed = _COPIES * sum(t.numel() * 8 for t in self._all(case))
        if needed > self._room():
            return None
        return copy.deepcopy(self._model).double()

    def _room(self) -> int:
        free = backend_of(self._device).free_bytes()
        return _BYTES_CPU if free is None else free // 4


def _explains(truth: Outputs, native: Outputs, *, lowers: bool) -> bool:
    """Whether what the reference's own run is off by is rounding."""
    if len(truth) != len(native):
        return False
    for exact, mine in zip(truth, native, strict=True):
        rule = RULES.get(mine.dtype.to_real() if mine.is_complex() else mine.dtype)
        if exact.shape != mine.shape:
            return False
        if rule is not None and mine.numel():
            own = distance(mine, exact)[0]
            if not (own <= rule.sane or (lowers and lowered(exact, mine, own))):
                return False
    return True


def _off(truth: Outputs, native: Outputs) -> float:
    """Of the outputs that differ most."""
    if [t.shape for t in truth] != [t.shape for t in native]:
        return math.inf
    ways = zip(truth, native, strict=True)
    return max((distance(n, t)[0] for t, n in ways if n.dtype in RULES and n.numel()), default=0.0)


def _own(model: Any, case: Case) -> torch.dtype:
    """What it computes with: what its inputs are, or its weights."""
    tensors = [t for t in (*case.tensors, *_held(model)) if t.is_floating_point()]
    return next((t.dtype for t in tensors if t.dtype != torch.float64), torch.float32)


def _held(model: Any) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    """A copy, which the reference may change."""
    if tensor.is_complex():
        return tensor.to(torch.complex128, copy=True)
    return tensor.to(torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)
