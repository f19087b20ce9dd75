"""Devices by name, and their facts: what a child sees of them, and the lease's identity."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import anyio

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import PrerequisiteMissing, SandboxFault
from gpu_sandbox.backends.known import backend_of, visible_variables
from gpu_sandbox.ipc.child_messages import Facts
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.supervise.control_line import ask
from gpu_sandbox.supervise.zygote_client import Zygote
from gpu_sandbox.toolchain.identity import torch_identity


class DeviceFacts:
    """Facts per device, asked once of a child and then kept in memory and on disk."""

    def __init__(self, cache: Path, zygote: Zygote, keeping: Keeping) -> None:
        self._cache = cache
        self._keeping = keeping
        self._zygote = zygote
        self._known: dict[str, dict[str, Any]] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def of(self, device: Device, cores: tuple[int, ...]) -> dict[str, Any]:
        """``cores`` are those that time it. Raises ``PrerequisiteMissing`` with the reason
        why it can't be used."""
        async with self._locks.setdefault(device.name, anyio.Lock()):
            if device.name not in self._known:
                self._known[device.name] = await self._find(device, cores)
            return dict(self._known[device.name])

    async def _find(self, device: Device, cores: tuple[int, ...]) -> dict[str, Any]:
        path = self._cache / f"{host_digest(device, cores)}.json"
        try:
            found = json.loads(path.read_text())
            if isinstance(found, dict):
                return found
        except (OSError, ValueError):
            pass
        found = await self._ask(device, cores)
        self._keeping.file(path, json.dumps(found).encode())
        return found

    async def _ask(self, device: Device, cores: tuple[int, ...]) -> dict[str, Any]:
        arguments = {"device": device.inside, "cores": list(cores)}
        variables = visible_variables(device)
        try:
            answer = await ask(
                self._zygote, "facts", Facts, arguments, variables, self._zygote.limits.start_s
            )
        except SandboxFault as fault:
            raise SandboxFault(f"{device.name}: its facts can't be read: {fault}") from None
        if answer.missing:
            raise PrerequisiteMissing(
                f"{device.name} can't be used: {answer.missing} (see: engine doctor)"
            )
        return answer.facts


def host_digest(device: Device, cores: tuple[int, ...]) -> str:
    """Changes with torch, driver, machine and start: what was found out can't outlive them."""
    driver = backend_of(device).driver_version()
    told = [torch_identity(), device.name, device.visible, driver]
    try:
        told.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    except OSError:
        told.append("")
    told.append(str(cores))
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:24]
