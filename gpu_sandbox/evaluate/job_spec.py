"""From a request to the job that a verifier gets."""

from __future__ import annotations

import msgspec

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import BaselineRequest, EvaluationRequest, PrerequisiteMissing
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.api.protocols import Precision, Protocol, protocol_named
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.ipc.verifier_messages import Job

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


def job_for(request: BaselineRequest | EvaluationRequest, device: Device, limits: Limits) -> Job:
    """What to do on ``device`` or one like it. Raises ``PrerequisiteMissing``."""
    protocol, backend = _protocol(request.protocol), backend_of(device)
    if protocol.precision == "tf32" and not backend.has_tf32:
        if protocol.cpu_precision is None:
            raise PrerequisiteMissing(
                "TF32 is a precision of CUDA devices: strict or strict-bf16 here"
            )
        protocol = msgspec.structs.replace(protocol, precision=protocol.cpu_precision)
    source = request.candidate_source if isinstance(request, EvaluationRequest) else None
    return Job(
        mode="baseline" if source is None else "evaluate",
        task_source=as_declared(request.task_source, protocol.precision),
        candidate_source=source or "",
        libraries=[],
        device=device.inside,
        protocol=protocol,
        seed=request.seed,
        threads=1,
        load_s=max(limits.call_s, limits.start_s),
        call_s=limits.call_s,
        bench_s=backend.bench_s if limits.bench_s is None else limits.bench_s,
        observe=list(request.observe) if isinstance(request, EvaluationRequest) else [],
        observe_share=limits.observe_share,
        conditions=isinstance(request, BaselineRequest) or request.conditions,
    )


def as_declared(task_source: str, precision: Precision) -> str:
    """The task's source, computing with ``precision`` where that is not a switch of torch's:
    bfloat16 is, under autocast, what PyTorch's users would do without a kernel of their own."""
    return task_source + _IN_BFLOAT16 if precision == "bf16" else task_source


def _protocol(name: str) -> Protocol:
    try:
        return protocol_named(name)
    except ValueError as error:
        raise PrerequisiteMissing(str(error)) from None
