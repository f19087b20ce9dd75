"""The exclusive lease of a device: first come first served here, in turn between engines.

Evaluations of this engine queue up for the same devices, and the first of them takes a place in
the queue of engines (``lease_queue.py``). A device that is not clear yet is kept from other
engines until it is; the next evaluation of this engine may take it over.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from gpu_sandbox.devices.lease_queue import Place
from gpu_sandbox.devices.lock_files import lock_directory, lock_file

_POLL_S = 0.005
_POLL_BEHIND_S = 0.05  # where other engines are next: they hold a device for longer


class Lease:
    """Exclusive use of the device of that ``identity`` (``cpu`` or a GPU's UUID). ``clear`` is
    set when its holder has left nothing on it."""

    def __init__(self, identity: str, place: Place) -> None:
        self.identity = identity
        self.place = place
        self.clear = anyio.Event()
        self.clear.set()


class Leases:
    """Leases of several devices. ``waiting`` and ``holding`` are for progress displays;
    ``held_s`` is the device time of all leases so far, in seconds."""

    def __init__(self, group: TaskGroup, directory: Path | None = None) -> None:
        """``group`` outlives all leases: tasks in it wait for devices to be clear."""
        self._group = group
        self._directory = directory or lock_directory()
        self._taken: dict[str, Lease] = {}
        self._unclear: dict[str, Lease] = {}
        """Given back here, and not clear yet."""
        self._given_back = anyio.Event()
        """Replaced each time a device was given back here."""
        self._turns: dict[tuple[str, ...], anyio.Lock] = {}
        self._since: dict[str, float] = {}
        self._held_s = 0.0
        self.waiting = 0

    @property
    def holding(self) -> int:
        return len(self._taken)

    def others_wait(self) -> bool:
        """For any device that is held here: in this engine, or in another."""
        held = self._taken.values()
        return self.waiting > 0 or any(lease.place.has_waiters for lease in held)

    @property
    def held_s(self) -> float:
        now = time.monotonic()
        return self._held_s + sum(now - since for since in self._since.values())

    @asynccontextmanager
    async def hold(self, *identities: str) -> AsyncIterator[Lease]:
        """One of these devices: whichever is free first, served in order of arrival.

        Raises ``PrerequisiteMissing`` where a device's lock can't be opened.
        """
        self.waiting += 1
        try:
            async with self._turns.setdefault(identities, anyio.Lock()):
                lease = await self._first_free(identities)
        finally:
            self.waiting -= 1
        identity = lease.identity
        self._taken[identity] = lease
        self._since[identity] = time.monotonic()
        try:
            yield lease
        finally:
            del self._taken[identity]
            self._held_s += time.monotonic() - self._since.pop(identity)
            if lease.clear.is_set():
                lease.place.close()
            else:
                self._unclear[identity] = lease
                self._group.start_soon(self._close_when_clear, lease)
            self._given_back.set()
            self._given_back = anyio.Event()

    async def _close_when_clear(self, lease: Lease) -> None:
        """Unless another lease here has taken it over."""
        try:
            await lease.clear.wait()
        finally:
            if self._unclear.get(lease.identity) is lease:
                del self._unclear[lease.identity]
                lease.place.close()

    async def _first_free(self, identities: Sequence[str]) -> Lease:
        places: dict[str, Place] = {}
        try:
            for identity in identities:
                places[identity] = Place(lock_file(self._directory, identity))
            while True:
                for identity, place in places.items():
                    if identity in self._unclear and place.is_first:
                        before = self._unclear.pop(identity)
                        lease = Lease(identity, before.place)
                        lease.clear = before.clear
                        return lease
                    if place.take():
                        return Lease(identity, places.pop(identity))
                await self._change(places)
        finally:
            for place in places.values():
                place.close()

    async def _change(self, places: dict[str, Place]) -> None:
        """Wait for a device that is given back here, or poll: other engines give no notice, and a
        thread that blocks in the kernel can't be cancelled."""
        given_back = self._given_back
        if self._taken.keys() >= places.keys():
            await given_back.wait()
        else:
            first = any(place.is_first for place in places.values())
            with anyio.move_on_after(_POLL_S if first else _POLL_BEHIND_S):
                await given_back.wait()
