"""The host's processor, probed."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.accelerator.cpu import Cpu
from gpu_sandbox.probes.backends.backend import Backend


class CpuBackend(Cpu, Backend):
    times = 10  # half of them in each half
    least_s = 0.0
    copied_bytes, side, dtypes = 256 << 20, 1024, (torch.float32,)

    def facts(self) -> dict[str, Any]:
        name, flags = _cpu_model()
        isa = "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else platform.machine()
        bits = {"avx512": 512, "avx2": 256}.get(isa, 128)
        return {
            "kind": "cpu",
            "name": name,
            "cores": len(os.sched_getaffinity(0)),
            "vector_bits": bits,
            "isa": isa,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        }

    def driver_account(self) -> None:
        return None

    def seconds(self, work: Callable[[], Any]) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began


def _cpu_model() -> tuple[str, set[str]]:
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags") or fields.get("Features") or ""
    return fields.get("model name") or platform.processor() or "cpu", set(flags.split())
