"""Import a source file as a module, and construct its model."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import torch

from gpu_sandbox.accelerator.lookup import accelerator_of
from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.runtime.precision import settle_precision


def import_file(name: str, path: str) -> ModuleType:
    """Import ``path`` as ``name``: a real module in a real file, as Triton and inspect need."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def settle(threads: int, precision: Precision = "float32") -> None:
    """The numeric state that both sides share, set before any foreign code runs."""
    torch.set_num_threads(threads)
    settle_precision(precision)
    torch.set_default_dtype(torch.float32)
    torch.backends.cudnn.benchmark = False


def seed_torch(seed: int, device: torch.device) -> None:
    """``torch.manual_seed`` for the two generators that matter, in a tenth of its time."""
    torch.default_generator.manual_seed(seed)
    accelerator_of(device).seed(seed)


def construct(model_class: Any, init: Any, weight_seed: int, device: torch.device) -> Any:
    """Construct under the weight seed, on the CPU, then move: equal weights on both sides.

    Init inputs are a list of arguments, a dict of keywords, or ``[[…], {…}]``.
    """
    torch.manual_seed(weight_seed)
    with torch.no_grad():
        model = _call(model_class, init)
        return model.to(device) if hasattr(model, "to") else model


def _call(model_class: Any, init: Any) -> Any:
    match init:
        case dict():
            return model_class(**init)
        case [list() | tuple() as arguments, dict() as keywords] if len(init) == 2:
            return model_class(*arguments, **keywords)
        case _:
            return model_class(*init)
