"""The reference as a protocol's precision has it, which is what candidates are timed against."""

from __future__ import annotations

from gpu_sandbox.api.protocols import Precision

__all__ = ["as_declared"]

_IN_BFLOAT16 = '''

def _in_bfloat16(forward):
    """The reference with autocast; what it returns in float32 without, so too."""
    import torch

    def plain(value):
        if isinstance(value, torch.Tensor):
            return value.float() if value.dtype == torch.bfloat16 else value
        if isinstance(value, (list, tuple)):
            return type(value)(plain(one) for one in value)
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        return value

    def cast(self, *arguments, **keywords):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.autocast(device, dtype=torch.bfloat16):
            return plain(forward(self, *arguments, **keywords))

    return cast


Model.forward = _in_bfloat16(Model.forward)
'''


def as_declared(task_source: str, precision: Precision) -> str:
    """The task's source, computing with ``precision`` where that is not a switch of torch's:
    bfloat16 is, under autocast, what PyTorch's users would do without a kernel of their own."""
    return task_source + _IN_BFLOAT16 if precision == "bf16" else task_source
