"""Names of devices. Pure: what a device is like is asked in ``devices/device_facts.py``."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from gpu_sandbox.api.evaluator import PrerequisiteMissing

__all__ = ["Device", "device_named", "devices_named"]

_CUDA = re.compile(r"cuda:(\d+)")


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is the user's; a child sees one GPU only, as ``inside``."""

    name: str
    inside: str
    visible: str

    @property
    def is_cuda(self) -> bool:
        return self.inside != "cpu"

    def nodes(self) -> tuple[str, ...]:
        """What the driver needs of ``/dev``. All GPUs' nodes: it fails if it can't open one."""
        if not self.is_cuda:
            return ()
        return tuple(sorted(str(p) for p in Path("/dev").glob("nvidia*") if p.is_char_device()))


def device_named(name: str) -> Device:
    """Raises ``PrerequisiteMissing`` for what is neither ``cpu`` nor ``cuda:N``."""
    if name == "cpu":
        return Device(name=name, inside="cpu", visible="")
    found = _CUDA.fullmatch("cuda:0" if name == "cuda" else name)
    if not found:
        raise PrerequisiteMissing(f"no device {name!r}: name it 'cpu' or 'cuda:N'")
    index = int(found[1])
    ours = os.environ.get("CUDA_VISIBLE_DEVICES")
    listed = [part.strip() for part in ours.split(",")] if ours is not None else None
    if listed is not None and index >= len([part for part in listed if part]):
        raise PrerequisiteMissing(f"no device {name!r}: CUDA_VISIBLE_DEVICES is {ours!r}")
    return Device(
        name=f"cuda:{index}", inside="cuda:0", visible=listed[index] if listed else str(index)
    )


def devices_named(names: str) -> list[str]:
    """``cuda:0,cuda:1`` taken apart; each name as ``Device`` has it."""
    return [device_named(name).name for name in names.split(",")]
