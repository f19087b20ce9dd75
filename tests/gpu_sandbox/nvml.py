"""A stand-in for the driver's library, built from C, so that the real ``ctypes`` calls it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from gpu_sandbox.cuda.nvml import Nvml

__all__ = ["FakeDriver", "built_into"]

SOURCE = Path(__file__).with_name("fake_nvml.c")


class FakeDriver:
    """Told what to say of its one device; ``nvml`` is ours, of that device."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.fake_forget()
        nvml = Nvml.of("fake", str(library))
        assert nvml is not None
        self.nvml = nvml

    def process(self, pid: int, used_bytes: int) -> None:
        self._library.fake_process(pid, ctypes.c_ulonglong(used_bytes))

    def hidden(self, used_bytes: int) -> None:
        self._library.fake_hidden(ctypes.c_ulonglong(used_bytes))

    def reading(self, sm_mhz: int, reasons: int = 0) -> None:
        """What the next reading says, and all later ones until there is another."""
        self._library.fake_reading(sm_mhz, ctypes.c_ulonglong(reasons))

    def utilization(self, percent: int) -> None:
        """What the next question for it is answered, and all later ones until there is another."""
        self._library.fake_utilization(percent)

    def slowness(self, us: int) -> None:
        """How long it takes to say what the clock is."""
        self._library.fake_slowness(us)

    @property
    def asked(self) -> int:
        """How often its clock was read."""
        return int(self._library.fake_asked())


def built_into(directory: Path) -> Path:
    library = directory / "libfake-nvml.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    return library
