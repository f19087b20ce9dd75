"""Peak rates of each device: probed under its lease, then kept on disk.

They hold for the same torch, driver, boot and cores, and are measured again, once a sandbox, when
a candidate beats them. A failed probe is tried again by the next sandbox; one of a busy machine
(``contention/thresholds.py``) after a while, by the next sandbox too.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
import msgspec

from events.observations import Ceilings
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.backends.known import visible_variables
from gpu_sandbox.devices.device_facts import host_digest
from gpu_sandbox.ipc.child_messages import Probed
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.supervise.control_line import ask
from gpu_sandbox.supervise.zygote_client import Zygote

AGAIN_S = 600.0  # after a probe of a busy machine, until the next


class KeptCeilings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of kept ceilings."""

    device: str
    ceilings: Ceilings


class NoCeilings(msgspec.Struct, frozen=True):
    """Why there are none; ``busy``: the machine was."""

    reason: str
    busy: bool = False


class KnownCeilings:
    """``cache`` is shared between processes."""

    def __init__(self, cache: Path, zygote: Zygote, keeping: Keeping) -> None:
        self._cache = cache
        self._keeping = keeping
        self._zygote = zygote
        self._known: dict[str, Ceilings | NoCeilings] = {}
        self._again_at: dict[str, float] = {}
        """Device → when a probe that met a busy machine may be repeated."""
        self._doubted: set[str] = set()
        """Devices that were probed again because a candidate beat their ceilings."""

    def find(self, device: Device, cores: tuple[int, ...]) -> Ceilings | NoCeilings | None:
        """Rates of an earlier probe, or why there are none; None: it is time to probe."""
        known = self._known.get(device.name)
        if isinstance(known, NoCeilings) and known.busy:
            return known if time.monotonic() < self._again_at[device.name] else None
        if known is None:
            known = self._kept(device, cores) or self._lately_busy(device, cores)
            if known is not None:
                self._known[device.name] = known
        return known

    async def probe(self, device: Device, cores: tuple[int, ...]) -> Ceilings | NoCeilings:
        """The caller holds the device's lease. Never raises for a failed probe."""
        found = self.find(device, cores)
        if found is None:
            found = self._known[device.name] = await self._probed(device, cores)
            self._again_at[device.name] = time.monotonic() + AGAIN_S
            if isinstance(found, Ceilings):
                await self._keep(device, cores, found)
            elif found.busy:
                path, reason = self._busy_path(device, cores), found.reason.encode()
                await anyio.to_thread.run_sync(self._keeping.file, path, reason)
        return found

    def may_doubt(self, device: Device) -> bool:
        """Whether its rates were not yet measured again because a candidate beat them."""
        return device.name not in self._doubted

    async def probe_again(self, device: Device, cores: tuple[int, ...]) -> str:
        """Measure rates that were beaten again, under the lease, and keep what is higher unless the
        machine is busy. Returns a note on the result."""
        self._doubted.add(device.name)
        old = self.find(device, cores)
        found = await self._probed(device, cores)
        if not isinstance(found, Ceilings):
            return f"a ceiling was beaten, and could not be measured again: {found.reason}"
        higher = raised(old, found) if isinstance(old, Ceilings) else found
        if higher is None:
            return "a ceiling was beaten, and measured again: it is no higher"
        self._known[device.name] = higher
        await self._keep(device, cores, higher)
        return "a ceiling was beaten, measured again, and is higher now"

    async def _probed(self, device: Device, cores: tuple[int, ...]) -> Ceilings | NoCeilings:
        try:
            answer = await self._ask(device, cores)
        except SandboxFault as fault:
            return NoCeilings(str(fault).splitlines()[0])
        if answer.ceilings is None:
            return NoCeilings(answer.missing)
        if answer.busy:
            why = f"the machine was busy when they were probed: {'; '.join(answer.busy)}"
            return NoCeilings(why, busy=True)
        return answer.ceilings

    def _kept(self, device: Device, cores: tuple[int, ...]) -> Ceilings | None:
        """One without its moment is of an older engine, which kept what busy machines did."""
        path = self._path(device, cores)
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=KeptCeilings).ceilings
        except OSError:
            return None
        except msgspec.MsgspecError:
            kept = None
        if kept is not None and kept.measured_at:
            return kept
        with suppress(OSError):
            path.unlink()
        return None

    def _lately_busy(self, device: Device, cores: tuple[int, ...]) -> NoCeilings | None:
        """What a probe of another process met, if that is not long ago."""
        path = self._busy_path(device, cores)
        try:
            left_s = path.stat().st_mtime + AGAIN_S - time.time()
            reason = path.read_text(errors="replace")
        except OSError:
            return None
        if not 0 < left_s <= AGAIN_S:  # or the clock was set
            return None
        self._again_at[device.name] = time.monotonic() + left_s
        return NoCeilings(reason, busy=True)

    async def _keep(self, device: Device, cores: tuple[int, ...], found: Ceilings) -> None:
        data = msgspec.json.encode(KeptCeilings(device=device.name, ceilings=found))
        await anyio.to_thread.run_sync(self._keeping.file, self._path(device, cores), data)

    def _path(self, device: Device, cores: tuple[int, ...]) -> Path:
        return self._cache / f"{host_digest(device, cores)}.json"

    def _busy_path(self, device: Device, cores: tuple[int, ...]) -> Path:
        """With a dot before its name, as all that is swept up when it is old."""
        return self._cache / f".{host_digest(device, cores)}.busy"

    async def _ask(self, device: Device, cores: tuple[int, ...]) -> Probed:
        limits, inside = self._zygote.limits, device.inside
        threads = min(len(cores), limits.threads or len(cores))
        arguments = {"device": inside, "cores": list(cores), "threads": threads}
        variables = visible_variables(device)
        return await ask(self._zygote, "ceilings", Probed, arguments, variables, limits.call_s)


def raised(old: Ceilings, new: Ceilings) -> Ceilings | None:
    """Of each figure the higher one; None if none of the new ones is higher. Pure."""
    rates = {
        name: max(new.flops_per_s.get(name, 0.0), old.flops_per_s.get(name, 0.0))
        for name in {**old.flops_per_s, **new.flops_per_s}
    }
    bytes_per_s = max(old.bytes_per_s, new.bytes_per_s)
    if bytes_per_s == old.bytes_per_s and rates == old.flops_per_s:
        return None
    return msgspec.structs.replace(new, bytes_per_s=bytes_per_s, flops_per_s=rates)
