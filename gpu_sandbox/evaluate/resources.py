"""Resources of a sandbox that is entered: zygote, devices, compilers, extra runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from events.observations import Ceilings
from events.outcomes import PoolUsage
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import DeviceLoad
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.builds.build_cache import BuildCache
from gpu_sandbox.builds.compile_pool import CompilePool
from gpu_sandbox.confine import Tier
from gpu_sandbox.devices.cpu_affinity import cores_of
from gpu_sandbox.devices.device_facts import DeviceFacts
from gpu_sandbox.devices.device_pool import DevicePool
from gpu_sandbox.devices.peak_rates import KnownCeilings
from gpu_sandbox.diagnose.tool_run import ExtraRun
from gpu_sandbox.evaluate.preparation import Preparations
from gpu_sandbox.evaluate.speed_of_light import Reach
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.supervise.isolation_policy import require_tier
from gpu_sandbox.supervise.run_directory import RunDirectory
from gpu_sandbox.supervise.zygote_client import Zygote


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a ``LocalSandbox``."""

    devices: tuple[str, ...]
    limits: Limits
    cache: Path
    cache_bytes: int
    compile_jobs: int | None
    require_isolation: Tier
    without_layers: tuple[str, ...]


class Opened:
    """Made when a sandbox is entered; processes start when they are first needed."""

    def __init__(
        self, settings: Settings, run: RunDirectory, group: TaskGroup, keeping: Keeping
    ) -> None:
        self._settings = settings
        self._keeping = keeping
        self._since = time.monotonic()
        self._builds = BuildCache(settings.cache / "builds", settings.cache_bytes, keeping)
        self._compilers: dict[str, CompilePool] = {}
        surveys = settings.cache / "isolation"
        self.zygote = Zygote(group, run, settings.limits, settings.without_layers, surveys)
        self.preparations = Preparations(self.zygote)
        self.devices = DevicePool(
            settings.devices,
            DeviceFacts(settings.cache / "facts", self.zygote, keeping),
            self.zygote,
            self.preparations.running,
        )
        self.ceilings = KnownCeilings(settings.cache / "ceilings", self.zygote, keeping)
        self.extra_run = ExtraRun(self.zygote)
        self.one_autopsy = anyio.Lock()
        """So that no autopsy yields to another."""

    async def isolation(self) -> list[str]:
        """Layers as a verdict lists them. Raises ``PrerequisiteMissing`` where they don't
        suffice."""
        survey = await self.zygote.survey()
        require_tier(survey, self._settings.require_isolation)
        return [*survey.layers, *(f"missing:{name}" for name in survey.missing)]

    def compiling(self, device: Device) -> tuple[int, ...]:
        """The cores that compile for it."""
        return cores_of(device, self._settings.devices)[1]

    def compilers(self, device: Device) -> CompilePool:
        """One for all devices of a kind."""
        kind = backend_of(device).kind
        if kind not in self._compilers:
            cores = self.compiling(device)
            self._compilers[kind] = CompilePool(
                self._builds,
                self._settings.cache / "prebuilt",
                self.zygote,
                self._keeping,
                jobs=self._settings.compile_jobs or len(cores),
                cores=cores,
            )
        return self._compilers[kind]

    def reach(self, device: Device, facts: dict[str, Any]) -> Reach:
        """What is known of how fast the device is. Probes nothing."""
        probed = self.ceilings.find(device, self.devices.timing(device))
        sheet = facts.get("bandwidth_gb_s")
        return Reach(
            cache_bytes=backend_of(device).cache_bytes(facts),
            sheet_bytes_per_s=None if sheet is None else sheet * 1e9,
            probed=probed if isinstance(probed, Ceilings) else None,
        )

    def load(self) -> DeviceLoad:
        pools, leases = self._compilers.values(), self.devices.leases
        return DeviceLoad(
            compiling=sum(pool.running for pool in pools),
            waiting_to_compile=sum(pool.waiting for pool in pools),
            waiting_for_device=leases.waiting,
            on_device=leases.holding,
            quarantined=dict(self.devices.quarantined),
        )

    def usage(self) -> PoolUsage:
        pools, load = self._compilers.values(), self.load()
        return PoolUsage(
            up_s=time.monotonic() - self._since,
            devices=len(self.devices),
            device_busy_s=self.devices.leases.held_s,
            device_queue=load.waiting_for_device,
            compile_places=sum(pool.jobs for pool in pools),
            compile_busy_s=sum(pool.busy_s for pool in pools),
            compile_queue=load.waiting_to_compile,
        )

    async def close(self) -> None:
        """End the devices' sessions, and bring the cache to size."""
        await self.devices.close()
        if self._builds.grown:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._builds.prune)
