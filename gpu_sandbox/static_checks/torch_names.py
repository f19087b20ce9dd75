"""Which of torch's names compute something. Torch itself is never imported here. Pure."""

from __future__ import annotations

import re

_COMPUTING_MODULES = ("torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
_MAKES_NOTHING = re.compile(
    r"(get|set|is|has|use|from|as|are)_\w+|(empty|zeros|ones|full|rand|randn|randint)(_\w+)?"
    r"|(b?float|u?int|complex|qu?int)\d*(_\w+)?|bool|half|double|long|short|tensor|arange"
    r"|nn|cuda|cpu|xpu|mps|backends|utils|jit|ops|library|classes|compile|compiler|autograd|amp"
    r"|autocast|no_grad|inference_mode|enable_grad|version|fx|export|hub|distributed|overrides"
    r"|multiprocessing|testing|profiler|random|manual_seed|seed|save|load|special|linalg|fft"
    r"|strided|sparse\w*|contiguous_format|channels_last\w*|preserve_format|memory_format|layout"
    r"|device|dtype|numel|typename|result_type|promote_types|can_cast|finfo|iinfo|inf|nan|pi|e"
    r"|reshape|view\w*|permute|transpose|t|unsqueeze|squeeze|flatten|unflatten|narrow|split|chunk"
    r"|unbind|swap\w+|move\w+|broadcast\w*|clone|detach|equal|allclose|vmap|func|cond"
)
"""Of ``torch.X``: what arranges, allocates or asks, and computes nothing."""
TENSOR_METHODS = frozenset({
    "matmul", "mm", "bmm", "addmm", "baddbmm", "softmax", "log_softmax", "relu", "relu_", "tanh",
    "tanh_", "sigmoid", "sigmoid_", "mean", "sum", "var", "std", "exp", "log", "cumsum", "cumprod",
    "clamp", "clamp_",
})  # fmt: skip
"""Those that say for themselves that they are a tensor's."""


def computes(path: str) -> bool:
    """Whether ``torch.nn.functional.relu`` and the like are operations on what a tensor holds."""
    module, _, name = path.rpartition(".")
    if module in _COMPUTING_MODULES or module.startswith("torch.ops.aten"):
        return True
    return module == "torch" and name.islower() and not _MAKES_NOTHING.fullmatch(name)


def is_own_operation(path: str) -> bool:
    """Whether it is an operation that was registered with torch, and not one of torch's."""
    return path.startswith("torch.ops.") and path.split(".")[2] not in ("aten", "prims")
