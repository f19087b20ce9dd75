"""What kernels take of a GPU's multiprocessor, as a table for people and prompts."""

from __future__ import annotations

from collections.abc import Sequence

from events.outcomes import KernelResources

__all__ = ["resources_table"]

_HEADS = ("registers", "spill stores", "spill loads", "static shared", "constant", "stack")
_MAX_NAME = 60


def resources_table(kernels: Sequence[KernelResources]) -> str:
    """A line a kernel under a line of heads, sizes in bytes; empty without kernels."""
    if not kernels:
        return ""
    names = ["kernel (ptxas; bytes, per thread or block)", *(_cut(k.kernel) for k in kernels)]
    width = max(map(len, names))
    rows = [_HEADS, *(tuple(map(str, _figures(k))) for k in kernels)]
    return "\n".join(
        f"{name:{width}}" + "".join(f"  {c:>{len(h)}}" for c, h in zip(row, _HEADS, strict=True))
        for name, row in zip(names, rows, strict=True)
    )


def _figures(kernel: KernelResources) -> tuple[int, ...]:
    return (
        kernel.registers,
        kernel.spill_store_bytes,
        kernel.spill_load_bytes,
        kernel.shared_bytes,
        kernel.constant_bytes,
        kernel.stack_bytes,
    )


def _cut(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"
