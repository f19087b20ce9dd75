"""A task's file, loaded: what it makes, and what it does wrong, which is ``Broken``."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from gpu_sandbox.accelerator.lookup import accelerator_of
from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.runtime.candidate_traceback import own_traceback
from gpu_sandbox.runtime.module_loader import construct, import_file, seed_torch
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.pytree import TASK_MODULE, NotPlain, mapped, pack

Constructor: TypeAlias = Callable[[Any, Any, int, torch.device], Any]
"""``construct``, or another way to do the same: of class, init inputs, weight seed and device."""


class TaskFile:
    """Every method raises ``Broken`` for the file's own mistakes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._module = self.guarded("the task file", import_file, TASK_MODULE, path)
        for name in ("Model", "get_inputs"):
            if not hasattr(self._module, name):
                raise Broken(f"the task file has no {name}")

    def init_inputs(self, seed: int) -> Any:
        make = getattr(self._module, "get_init_inputs", list)
        torch.manual_seed(seed)
        init = self.guarded("get_init_inputs()", make)
        self.packed("get_init_inputs() gives", init, [])
        return init

    def constructed(
        self, init: Any, seed: int, device: torch.device, make: Constructor = construct
    ) -> Any:
        """Its model, on the device."""
        what, model = "constructing the reference", self._module.Model
        return self.guarded(what, make, model, moved(init, device), seed, device)

    def inputs(self, seed: int, device: torch.device) -> list[Any]:
        """Drawn on the device where that works: it is 100 × faster."""
        inputs = self.guarded("get_inputs()", self._drawn, seed, device)
        every = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        arguments: list[Any] = moved(every, device)
        return arguments

    def _drawn(self, seed: int, device: torch.device) -> Any:
        if not accelerator_of(device).on_host:
            try:
                _seed_all(seed, device)
                with torch.device(device):
                    return self._module.get_inputs()
            except torch.OutOfMemoryError:
                raise
            except Exception:  # it mixes devices: let it draw as it was written
                pass
        _seed_all(seed, device)
        return self._module.get_inputs()

    def packed(
        self, what: str, value: Any, tensors: list[torch.Tensor], *, pickling: bool = True
    ) -> Tree:
        """As ``pack`` does, of what the file gave."""
        try:
            return pack(value, tensors, pickling=pickling)
        except NotPlain as error:
            raise Broken(f"{what} {error}") from None

    def guarded(self, what: str, function: Any, *arguments: Any) -> Any:
        """What the function returns, which runs the file's code."""
        try:
            return function(*arguments)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            detail = own_traceback(error, self._path)
            memory = isinstance(error, torch.OutOfMemoryError)
            reason = f"{what} failed: {detail.splitlines()[-1][:300]}"
            raise Broken(reason, detail, memory=memory) from None


def moved(value: Any, device: torch.device) -> Any:
    return mapped(value, lambda t: t.to(device))


def _seed_all(seed: int, device: torch.device) -> None:
    seed_torch(seed, device)
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed % (1 << 32))
