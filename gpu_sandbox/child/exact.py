"""The same forward in float64, where the task allows it and memory suffices: the truth that outputs
are held against, and how far the reference's own precision is from it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gpu_sandbox.child.cases import Case
from gpu_sandbox.child.precision import rounded
from gpu_sandbox.child.values import mapped
from gpu_sandbox.child.wider import Wider
from gpu_sandbox.protocols import Precision

__all__ = ["Exact"]

_BYTES_CPU = 1 << 30
_COPIES = 3
"""Of model and inputs, that must fit in what is free for it."""

Run = Callable[[Any, Any, Case], list[Any]]
"""Of a model, on arguments, under the case's seed: its output tensors."""


class Exact:
    """Of one model. ``used``: there was a run that did; ``failed``: in the last one a matrix had
    not what it takes, where others had."""

    def __init__(self, model: Any, device: torch.device, precision: Precision) -> None:
        self.used = self.failed = False
        self._model = model
        self._device = device
        self._precision: Precision = precision
        self._wide: Any = None
        self._rough: Any = None
        self._tried = False
        self._wider = Wider(device)
        self._casts: AbstractContextManager[Any] = self._wider

    @property
    def lowers(self) -> bool:
        """Whether the reference computes in 16 bits what comes in more."""
        return self._wider.lowers

    def outputs(self, case: Case, run: Run) -> tuple[list[Any] | None, list[Any] | None]:
        """In float64, and the same of inputs and weights that are rounded to the declared
        precision, where that is less than float32."""
        first, self._tried, self.failed = not self._tried, True, False
        if not first and self._wide is None:
            return None, None
        try:
            if first:
                self._wide = self._widened(case)
            if self._wide is None:
                return None, None
            truth = self._wide_run(case, run)
        except torch.OutOfMemoryError:  # of a candidate's doing, maybe: of this case only
            return None, None
        except Exception as error:  # of the matrix itself, or for want of memory that is taken
            self.failed = self.used and isinstance(error, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
            if not self.used:  # it names its dtypes: then its own precision must do
                self._wide = None
            return None, None
        self.used = True
        return truth, self._of_rounded(case, run) if self._precision != "float32" else None

    def _wide_run(self, case: Case, run: Run) -> list[Any]:
        """With its casts as they are where it can't do otherwise: it looks at their bits, say."""
        try:
            with self._casts:
                return run(self._wide, mapped(case.arguments, _doubled), case)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            if self.used or self._casts is not self._wider:
                raise
            self._wider, self._casts = Wider(self._device), nullcontext()
            self._wide = self._widened(case)
            return self._wide_run(case, run)

    def _of_rounded(self, case: Case, run: Run) -> list[Any]:
        if self._rough is None:
            self._rough = copy.deepcopy(self._wide)
            for tensor, kept in zip(_held(self._model), _held(self._rough), strict=True):
                kept.data.copy_(rounded(tensor.data, self._precision))
        arguments = mapped(case.arguments, lambda t: rounded(t.clone(), self._precision))
        with self._casts:
            return run(self._rough, arguments, case)

    def _widened(self, case: Case) -> Any:
        needed = _COPIES * sum(t.numel() * 8 for t in [*_held(self._model), *case.tensors])
        if needed > self._room():
            return None
        return copy.deepcopy(self._model).double()

    def _room(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.mem_get_info(self._device)[0]) // 4
        return _BYTES_CPU


def _held(model: Any) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor.clone()
