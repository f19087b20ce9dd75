"""Facts of a device, as a child of the zygote reads them."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
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
    """Facts per device, kept in memory and on disk."""

    def __init__(self, cache: Path, zygote: Zygote, keeping: Keeping) -> None:
        self._cache = cache
        self._keeping = keeping
        self._zygote = zygote
        self._known: dict[str, dict[str, Any]] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def of(self, device: Device, cores: tuple[int, ...]) -> dict[str, Any]:
        """``cores`` time it. Raises ``PrerequisiteMissing`` where it can't be used."""
        async with self._locks.setdefault(device.name, anyio.Lock()):
            if device.name not in self._known:
                self._known[device.name] = await self._find(device, cores)
            return dict(self._known[device.name])

    async def _find(self, device: Device, cores: tuple[int, ...]) -> dict[str, Any]:
        path = self._cache / f"{host_digest(device, cores)}.json"
        with suppress(OSError, ValueError):
            found = json.loads(path.read_text())
            if isinstance(found, dict):
                return found
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
    """Changes with torch, driver, boot and cores, which facts can't outlive."""
    driver, boot = backend_of(device).driver_version(), ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    parts = [torch_identity(), device.name, device.visible, driver, boot, str(cores)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
