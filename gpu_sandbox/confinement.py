"""What untrusted children may use, from the limits of an evaluation."""

from __future__ import annotations

from pathlib import Path

from gpu_sandbox.confine import Policy
from gpu_sandbox.limits import Limits

__all__ = ["policy_for"]


def policy_for(
    limits: Limits,
    home: Path,
    cores: tuple[int, ...],
    devices: tuple[str, ...] = (),
    *,
    readable: tuple[str, ...] = (),
) -> Policy:
    """``home`` is the one place to write in; ``devices`` are nodes, none off the GPU.

    An address-space limit breaks CUDA, which reserves terabytes: there the memory limit
    is the cgroup's alone.
    """
    return Policy(
        home=str(home),
        readable=readable,
        devices=devices,
        memory_bytes=limits.memory_bytes,
        address_space=not devices,
        processes=limits.processes,
        file_bytes=limits.file_bytes,
        descriptors=limits.descriptors,
        cpu_s=limits.cpu_s,
        tmpfs_bytes=limits.tmpfs_bytes,
        affinity=cores,
    )
