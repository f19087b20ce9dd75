"""Devices by name, and their facts: what a child sees of them, and the lease's identity."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import anyio
import msgspec

from gpu_sandbox.frames import BadFrame, Line, PeerGone
from gpu_sandbox.jobs import Facts
from gpu_sandbox.keeping import Keeping
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import PrerequisiteMissing, SandboxFault
from gpu_sandbox.process import child_environment
from gpu_sandbox.workdir import RunDirectory
from gpu_sandbox.zygote import Zygote

__all__ = [
    "Device",
    "DeviceFacts",
    "device_named",
    "devices_named",
    "host_digest",
    "torch_identity",
]

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


def torch_identity() -> str:
    """Which torch children will import: place, version, CUDA. Imports nothing of it."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        raise PrerequisiteMissing("torch is not installed: pip install torch")
    version = Path(spec.origin).parent / "version.py"
    return f"{version}\n{version.read_text()}\n{sys.version}"


class DeviceFacts:
    """Facts per device, asked once of a child and then kept in memory and on disk."""

    def __init__(self, cache: Path, limits: Limits, keeping: Keeping) -> None:
        self._cache = cache
        self._keeping = keeping
        self._limits = limits
        self._known: dict[str, dict[str, Any]] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def of(
        self, device: Device, cores: tuple[int, ...], zygote: Zygote, run: RunDirectory
    ) -> dict[str, Any]:
        """``cores`` are those that time it. Raises ``PrerequisiteMissing`` with the reason
        why it can't be used."""
        async with self._locks.setdefault(device.name, anyio.Lock()):
            if device.name not in self._known:
                self._known[device.name] = await self._find(device, cores, zygote, run)
            return dict(self._known[device.name])

    async def _find(
        self, device: Device, cores: tuple[int, ...], zygote: Zygote, run: RunDirectory
    ) -> dict[str, Any]:
        path = self._cache / f"{host_digest(device, cores)}.json"
        try:
            found = json.loads(path.read_text())
            if isinstance(found, dict):
                return found
        except (OSError, ValueError):
            pass
        found = await self._ask(device, cores, zygote, run)
        self._keeping.file(path, json.dumps(found).encode())
        return found

    async def _ask(
        self, device: Device, cores: tuple[int, ...], zygote: Zygote, run: RunDirectory
    ) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        home = run.home("facts")
        line: Line[Facts] = Line(ours, Facts)
        try:
            with theirs:
                ward = await zygote.spawn(
                    "facts",
                    {"device": device.inside, "cores": list(cores)},
                    {"control": theirs},
                    environment=child_environment(home, CUDA_VISIBLE_DEVICES=device.visible),
                    directory=home,
                    policy=None,
                )
            try:
                with anyio.fail_after(self._limits.start_s):
                    answer = await line.receive()
            except (PeerGone, BadFrame, TimeoutError):
                why = await ward.last_words()
                raise SandboxFault(f"{device.name}: its facts can't be read ({why})") from None
            finally:
                await ward.end()
        finally:
            line.close()
        if answer.missing:
            raise PrerequisiteMissing(
                f"{device.name} can't be used: {answer.missing} (see: engine doctor)"
            )
        return answer.facts


def host_digest(device: Device, cores: tuple[int, ...]) -> str:
    """Changes with torch, driver, machine and start: what was found out can't outlive them."""
    told = [torch_identity(), device.name, device.visible]
    for path in ("/proc/driver/nvidia/version", "/proc/sys/kernel/random/boot_id"):
        try:
            told.append(Path(path).read_text())
        except OSError:
            told.append("")
    told.append(str(cores))
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:24]
