"""What untrusted children may use, and whether their isolation suffices here."""

from __future__ import annotations

from pathlib import Path

from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.confine import Policy, Survey, Tier


def require_tier(survey: Survey, weakest: Tier) -> None:
    """Raises ``PrerequisiteMissing`` where isolation is weaker than tier ``weakest``."""
    if survey.tier <= weakest:
        return
    missing = "\n".join(f"  {layer}: {reason}" for layer, reason in survey.missing.items())
    option = (
        "--allow-weak-isolation" if survey.tier == "C" else f"--require-isolation {survey.tier}"
    )
    raise PrerequisiteMissing(
        f"candidates would be isolated by tier {survey.tier} here, and tier {weakest} is"
        f" required. Missing:\n{missing}\n"
        f"Mend that (engine doctor shows more), or accept it with {option}."
    )


def policy_for(
    limits: Limits,
    home: Path,
    cores: tuple[int, ...],
    devices: tuple[str, ...] = (),
    *,
    readable: tuple[str, ...] = (),
) -> Policy:
    """``home`` is the one place to write in; ``devices`` are the nodes of a device, whose driver
    reserves terabytes of addresses, so that only the cgroup limits memory."""
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
