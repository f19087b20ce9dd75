"""What untrusted children may use, from the limits of an evaluation; and whether what
confines them here is enough."""

from __future__ import annotations

from pathlib import Path

from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.confine import Policy, Survey, Tier


def require_tier(survey: Survey, weakest: Tier) -> None:
    """Raises ``PrerequisiteMissing``, with what is missing and what to do about it, where
    candidates would be confined less than tier ``weakest`` asks for (A is the strictest)."""
    if survey.tier <= weakest:
        return
    lines = [f"  {layer}: {reason}" for layer, reason in survey.missing.items()]
    told = "\n".join(lines)
    way_out = (
        "--allow-weak-isolation" if survey.tier == "C" else f"--require-isolation {survey.tier}"
    )
    raise PrerequisiteMissing(
        f"candidates would be isolated by tier {survey.tier} here, and tier {weakest} is"
        f" required. Missing:\n{told}\n"
        f"Mend that (engine doctor shows more), or accept it with {way_out}."
    )


def policy_for(
    limits: Limits,
    home: Path,
    cores: tuple[int, ...],
    devices: tuple[str, ...] = (),
    *,
    readable: tuple[str, ...] = (),
) -> Policy:
    """``home`` is the one place to write in; ``devices`` are the nodes of a device.

    An address-space limit breaks a GPU's driver, which reserves terabytes: with nodes the memory
    limit is the cgroup's alone.
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
