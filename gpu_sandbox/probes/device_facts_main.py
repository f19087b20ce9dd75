"""Facts of a device, read by a child because only children import torch."""

from __future__ import annotations

import os
import platform
import re
import socket
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.verifier_messages import Facts

__all__ = ["main", "sheet_gb_s"]

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
"""Of the data sheets, GB = 10⁹ bytes. First name that stands in the device's wins, as whole words:
what a sheet says of an L4 is not true of an L40, and verdicts are refused by it."""


def main(*, control: int, device: str, cores: list[int]) -> None:
    os.sched_setaffinity(0, cores)
    with socket.socket(fileno=control) as sock:
        channel: Channel[Facts] = Channel(sock, Facts)
        try:
            found = _cpu() if device == "cpu" else _cuda(torch.device(device))
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            channel.send(Facts(facts={}, missing=reason[:500]))
            return
        versions = {"torch": str(torch.__version__), "cuda": torch.version.cuda}
        channel.send(Facts(facts={**found, **versions}))


def _cpu() -> dict[str, Any]:
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


def _cpu_model() -> tuple[str, set[str]]:
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags") or fields.get("Features") or ""
    return fields.get("model name") or platform.processor() or "cpu", set(flags.split())


def _cuda(device: torch.device) -> dict[str, Any]:
    if torch.version.cuda is None:
        raise RuntimeError("this torch is a CPU build")
    torch.zeros(1, device=device).add_(1).cpu()  # a kernel, not only a query
    properties: Any = torch.cuda.get_device_properties(device)
    name = str(properties.name)
    return {
        "kind": "cuda",
        "name": name,
        "uuid": str(getattr(properties, "uuid", name)),
        "compute_capability": f"{properties.major}.{properties.minor}",
        "sm_count": int(properties.multi_processor_count),
        "shared_memory_per_block_bytes": int(
            getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
        ),
        "warp_size": int(properties.warp_size),
        "l2_bytes": int(properties.L2_cache_size),
        "memory_bytes": int(properties.total_memory),
        "bandwidth_gb_s": sheet_gb_s(name),
        "driver": _driver(),
    }


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
