"""NVIDIA's devices, probed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.accelerator.cuda import Cuda
from gpu_sandbox.cuda.nvml import Nvml, nvml_of
from gpu_sandbox.probes.backends.backend import Backend

_BANDWIDTH_GB_S = {
    "H200": 4800.0,
    "H100 PCIe": 2039.0,
    "H100 NVL": 3938.0,
    "H100": 3352.0,
    "A100-SXM4-80GB": 2039.0,
    "A100-SXM4-40GB": 1555.0,
    "L40S": 864.0,
    "L40": 864.0,
    "L4": 300.0,
    "RTX 4090": 1008.0,
    "RTX 5090": 1792.0,
    "B200": 8000.0,
}
"""By data sheets, GB = 10⁹ bytes. The first name that is a whole word of the device's counts."""


class CudaBackend(Cuda, Backend):
    times = 20  # half of them in each half
    least_s = 0.03  # its clocks rise first, and ten products take two milliseconds
    copied_bytes, side = 1 << 30, 4096
    dtypes = (torch.float32, torch.float16, torch.bfloat16)

    def facts(self) -> dict[str, Any]:
        if torch.version.cuda is None:
            raise RuntimeError("this torch is a CPU build")
        torch.zeros(1, device=self.device).add_(1).cpu()  # a kernel, not only a query
        properties: Any = torch.cuda.get_device_properties(self.device)
        name = str(properties.name)
        return {
            "kind": "cuda",
            "name": name,
            "uuid": str(getattr(properties, "uuid", name)),
            "compute_capability": f"{properties.major}.{properties.minor}",
            "sm_count": int(properties.multi_processor_count),
            "shared_memory_per_block_bytes": int(
                getattr(
                    properties, "shared_memory_per_block_optin", properties.shared_memory_per_block
                )
            ),
            "warp_size": int(properties.warp_size),
            "l2_bytes": int(properties.L2_cache_size),
            "memory_bytes": int(properties.total_memory),
            "bandwidth_gb_s": sheet_gb_s(name),
            "driver": _driver(),
        }

    def driver_account(self) -> Nvml | None:
        return nvml_of(self.device)

    def seconds(self, work: Callable[[], Any]) -> float:
        event: Any = torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3


def sheet_gb_s(name: str) -> float | None:
    """A device's memory bandwidth by its data sheet, in 10⁹ bytes a second; None if unknown."""
    for known, found in _BANDWIDTH_GB_S.items():
        if re.search(rf"(?<!\w){re.escape(known)}(?!\w)", name):
            return found
    return None


def _driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    words = text.split()
    return next((w for w in words if w[:1].isdigit() and w.count(".") >= 1), None)
