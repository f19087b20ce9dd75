"""From a request to the job that a verifier gets."""

from __future__ import annotations

import msgspec

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import BaselineRequest, EvaluationRequest, PrerequisiteMissing
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.api.protocols import Protocol, protocol_named
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.evaluate.declared_precision import as_declared
from gpu_sandbox.ipc.verifier_messages import Job

__all__ = ["job_for"]


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


def _protocol(name: str) -> Protocol:
    try:
        return protocol_named(name)
    except ValueError as error:
        raise PrerequisiteMissing(str(error)) from None
