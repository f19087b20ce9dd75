"""Watch for other processes on the device and on the timing cores during a measurement."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from gpu_sandbox.accelerator.driver_account import DriverAccount
from gpu_sandbox.contention.core_time import CoreWatch
from gpu_sandbox.contention.foreign_processes import ForeignProcesses, our_processes
from gpu_sandbox.contention.thresholds import MAX_UTILIZATION, DeviceUse, busy_cores, busy_device

_REST_S = 1.5  # a driver reports on the last second, in which our own work must not be
_POLL_S = 0.1


class Watch:
    """Begun before a measurement, and ended after it. ``measuring`` gives the processes that
    measure, this one among them; ``preparing`` of ours are frozen on the device."""

    def __init__(
        self,
        driver: DriverAccount | None,
        cores: Collection[int],
        measuring: Callable[[], Collection[int]],
        preparing: int = 0,
    ) -> None:
        self._driver = driver
        self._foreign = ForeignProcesses(driver, our_processes, preparing)
        self._cores = CoreWatch(cores, measuring)
        self._utilization: int | None = None

    def begin(self, *, at_rest: bool = False) -> None:
        """``at_rest``: nothing of ours runs on the device, and there is time to see that."""
        if at_rest:
            self._utilization = utilization_at_rest(self._driver)
        self._foreign.sample()
        self._cores.sample()

    def sample(self) -> None:
        """Before one of the processes that measure ends."""
        self._cores.sample()

    def end(self, *, at_rest: bool = False) -> None:
        """``at_rest``: the same; where that was measured before, only if others are there."""
        self._cores.sample()
        self._foreign.sample()
        if at_rest and (self._foreign.count or self._utilization is None):
            again = utilization_at_rest(self._driver)
            known = [percent for percent in (self._utilization, again) if percent is not None]
            self._utilization = max(known) if known else None

    def notes(self) -> list[str]:
        """On processes of the device."""
        return self._foreign.notes()

    def reasons(self) -> list[str]:
        """Why the machine counts as busy; empty if it does not."""
        use = DeviceUse(processes=self._foreign.count, utilization=self._utilization)
        return [*busy_device(use), *busy_cores(self._cores.time())]


def utilization_at_rest(driver: DriverAccount | None) -> int | None:
    """Percent of the time in which a device works that nothing of ours uses: the first reading
    within the bound, or the last before our own work must be out of it."""
    if driver is None:
        return None
    deadline = time.monotonic() + _REST_S
    while (percent := driver.utilization()) is not None and percent > MAX_UTILIZATION:
        if time.monotonic() >= deadline:
            break
        time.sleep(_POLL_S)
    return percent
