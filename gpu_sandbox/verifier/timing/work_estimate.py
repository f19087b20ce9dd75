"""Lower bounds of a reference's work: bytes that it must move, operations that are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from events.observations import Work
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task

_MAX_UNCOUNTED = 8
_COMPUTES_NOTHING = frozenset(
    {"empty", "empty_like", "empty_strided", "detach", "alias", "lift_fresh"}
)


def count_work(task: Task, case: Case) -> Work:
    """Count one more forward on ``case``, a solved one. Raises what the reference raises."""
    with _Counter() as counter:
        task.forward(case)
    outputs = [expected.native for expected in case.expected]
    parameters = [*task.model.parameters(), *task.model.buffers()]
    everything = [*case.tensors, *parameters, *outputs]
    return Work(
        input_bytes=_bytes(case.tensors),
        output_bytes=_bytes(outputs),
        parameter_bytes=_bytes(parameters),
        flops=counter.flops,
        dtype=_prevailing(everything),
        uncounted=list(counter.uncounted)[:_MAX_UNCOUNTED],
    )


def moved_bytes(task: Task, case: Case) -> tuple[int, int]:
    """Bytes of the inputs of ``case``, and of outputs that have to be written: no views of an input
    or a weight, and of one storage no more than its size."""
    weights = [*task.model.parameters(), *task.model.buffers()]
    held = {t.untyped_storage().data_ptr() for t in weights if t.layout == torch.strided}
    written = [
        expected.native
        for expected, aliasing, kept in zip(case.expected, case.aliasing, case.state, strict=True)
        if not aliasing
        and not kept
        and expected.native.layout == torch.strided
        and expected.native.untyped_storage().data_ptr() not in held
    ]
    by_storage: dict[int, list[torch.Tensor]] = {}
    for tensor in written:
        by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
    sizes = (min(_bytes(t), t[0].untyped_storage().nbytes()) for t in by_storage.values())
    read = [tensor for tensor in case.tensors if tensor.layout == torch.strided]
    return _bytes(read), sum(sizes)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Each tensor once, and an expanded one without its repetitions."""
    distinct = {(t.data_ptr(), t.shape, t.stride()): t for t in tensors}
    return sum(_elements(t) * t.element_size() for t in distinct.values())


def _elements(tensor: torch.Tensor) -> int:
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride or not size else 1
    return count


def _prevailing(tensors: Iterable[torch.Tensor]) -> str:
    """The floating point dtype of most bytes, if there is one."""
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.is_floating_point():
            name = str(tensor.dtype).removeprefix("torch.")
            sizes[name] += tensor.numel() * tensor.element_size()
    return sizes.most_common(1)[0][0] if sizes else ""


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """torch's ``FlopCounterMode`` with the names of operators that have no formula, and without
    importing the compiler, which takes a second."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0
        self.uncounted: dict[str, None] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports dynamo

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        formula = flop_registry.get(func._overloadpacket)
        if formula is None:
            with self:
                made_of_others = func.decompose(*args, **kwargs)
            if made_of_others is not NotImplemented:
                return made_of_others
        output = func(*args, **kwargs)
        if formula is not None:
            self.flops += int(formula(*args, **kwargs, out_val=output))
        else:
            name = str(func._overloadpacket).removeprefix("aten.")
            if not func.is_view and name not in _COMPUTES_NOTHING:
                self.uncounted[name] = None
        return output
