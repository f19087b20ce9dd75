"""NVIDIA GPUs, by CUDA."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_sandbox.api.check import Check
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.backends.compute_sanitizer import ComputeSanitizer, compute_sanitizer
from gpu_sandbox.backends.machine_checks import compiles, found
from gpu_sandbox.backends.nsight_compute import NsightCompute, refusal
from gpu_sandbox.backends.protocol import Builds, Checks, Tools
from gpu_sandbox.toolchain.identity import toolchain
from gpu_sandbox.toolchain.prerequisites import cuda_home, require_compiler

_NAME = re.compile(r"cuda:(\d+)")
_VISIBLE_BY = "CUDA_VISIBLE_DEVICES"
_DRIVER = Path("/dev/nvidiactl")
_DRIVER_VERSION = Path("/proc/driver/nvidia/version")
_CRASHES = re.compile(
    r"illegal memory access|misaligned address|unspecified launch failure|illegal instruction"
    r"|illegal address|device-side assert|hardware stack error|invalid program counter"
    r"|shared address space"  # an address that happens to lie where shared or local memory does
)
_TOOLS = "NVIDIA's tools"
_CU = "__global__ void k(float* x) { x[0] = 1; }\n"


class _Builds:
    def require(self) -> None:
        require_compiler()
        if cuda_home() is None:
            raise PrerequisiteMissing("no CUDA toolkit: install it, or set CUDA_HOME to its place")

    def toolchain(self) -> str:
        home = cuda_home()
        return toolchain() if home is None else toolchain(str(home / "bin" / "nvcc"))

    def architecture(self, facts: Mapping[str, Any]) -> str:
        return str(facts.get("compute_capability"))

    def variables(self, facts: Mapping[str, Any]) -> dict[str, str]:
        home = cuda_home()
        if home is None:
            return {}
        arch = _arch(str(facts["compute_capability"]))
        return {"CUDA_HOME": str(home), "TORCH_CUDA_ARCH_LIST": arch}

    def pretended(self, facts: dict[str, Any]) -> dict[str, Any] | None:
        return facts


def _arch(capability: str) -> str:
    """Architecture-specific instructions (wgmma, tma) need the ``a`` from 9.0 on."""
    return f"{capability}a" if int(capability.split(".")[0]) >= 9 else capability


class _Checks:
    def __init__(self) -> None:
        self.machine: Sequence[Callable[[], Check]] = (_toolkit, _compute_sanitizer, _counters)

    def of_verdict(self, device: str, notes: Sequence[str]) -> list[Check]:
        """Whether gates bound self-reported times (``verifier/timing/gates.py``)."""
        why = [note for note in notes if note.startswith("not-gated: ")]
        detail = (
            why[0].removeprefix("not-gated: ")
            if why
            else "gates bound the times that workers report"
        )
        nvrtc = "pip install the nvidia-cuda-nvrtc of torch's CUDA version"
        fix = nvrtc if "NVRTC" in detail else ""
        return [Check(name=f"gates {device}", ok=not why, needed=False, detail=detail, fix=fix)]

    def of_isolation(self, *, can_connect: bool) -> list[Check]:
        if can_connect:
            return []
        detail = (
            "compute-sanitizer and Nsight Compute don't work without a mount namespace: crashes of"
            " CUDA candidates come without their place, and there are no counters"
        )
        fix = "as for the mount namespace (CUDA candidates only)"
        return [Check(name=_TOOLS, ok=False, needed=False, detail=detail, fix=fix)]


def _toolkit() -> Check:
    home = cuda_home()
    name = "CUDA toolkit"
    fix = "install the CUDA toolkit, or set CUDA_HOME to its place (CUDA candidates only)"
    if home is None:
        return Check(name=name, ok=False, needed=False, detail="no nvcc", fix=fix)
    return compiles(name, [str(home / "bin" / "nvcc"), "-x", "cu"], _CU, fix)


def _compute_sanitizer() -> Check:
    lost = "illegal accesses and races of CUDA candidates come without their place"
    fix = (
        "install it with the CUDA toolkit (Debian, Ubuntu: apt install cuda-sanitizer-VERSION), or"
        " set CUDA_HOME to its place (CUDA candidates only)"
    )
    return found("compute-sanitizer", compute_sanitizer(), lost, fix)


def _counters() -> Check:
    name, refused = "Nsight Compute counters", refusal()
    if not refused:
        return Check(
            name=name, ok=True, needed=False, detail="present, and the driver lets any user read"
        )
    detail, _, fix = refused.partition(": ")
    return Check(name=name, ok=False, needed=False, detail=detail, fix=fix)


class CudaBackend:
    kind = "cuda"
    first = "cuda:0"
    name_form = "'cuda:N'"

    visible_by = _VISIBLE_BY
    load_variables: Mapping[str, str] = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # the other check makes CUDA unusable after a fork
    }
    failure_words: tuple[str, ...] = ("cuda", "cudnn", "cublas", "nvrtc")

    has_contexts = True
    computes_on_cores = False
    has_tf32 = True
    bench_s = 5.0
    drains_s = 0.15  # what an autotuner queues at a time runs for a tenth of a second

    builds: Builds = _Builds()
    tools = Tools(
        memory=ComputeSanitizer("memcheck"),
        races=ComputeSanitizer("racecheck"),
        counters=NsightCompute(),
        crashes=_CRASHES,
        built_only=False,
        under_lease=True,
        connect=_TOOLS,
    )
    checks: Checks = _Checks()

    def device(self, name: str) -> Device | None:
        """A child sees one GPU only, which is the first there."""
        number = _NAME.fullmatch(self.first if name == self.kind else name)
        if not number:
            return None
        index = int(number[1])
        ours = os.environ.get(_VISIBLE_BY)
        listed = [part.strip() for part in ours.split(",")] if ours is not None else None
        if listed is not None and index >= len([part for part in listed if part]):
            raise PrerequisiteMissing(f"no device {name!r}: {_VISIBLE_BY} is {ours!r}")
        visible = listed[index] if listed else str(index)
        return Device(name=f"cuda:{index}", inside="cuda:0", visible=visible)

    def is_present(self) -> bool:
        return _DRIVER.exists()

    def nodes(self) -> tuple[str, ...]:
        """All GPUs': the driver fails if it can't open one."""
        return tuple(sorted(str(p) for p in Path("/dev").glob("nvidia*") if p.is_char_device()))

    def driver_version(self) -> str:
        try:
            return _DRIVER_VERSION.read_text()
        except OSError:
            return ""

    def lease_identity(self, device: Device, facts: Mapping[str, Any]) -> str:
        return str(facts.get("uuid") or device.name)

    def cache_bytes(self, facts: Mapping[str, Any]) -> int | None:
        return facts.get("l2_bytes")


CUDA = CudaBackend()
