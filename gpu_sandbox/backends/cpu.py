"""The CPU as a device."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gpu_sandbox.api.check import Check
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.backends.address_sanitizer import AddressSanitizer, address_runtime
from gpu_sandbox.backends.machine_checks import compiles, found
from gpu_sandbox.backends.protocol import Builds, Checks, Tools
from gpu_sandbox.toolchain.identity import toolchain
from gpu_sandbox.toolchain.prerequisites import require_compiler, require_cpp

_CPP = "#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n"


@cache
def cpu_cache_bytes() -> int | None:
    """What all caches of all cores hold together; None where Linux does not say."""
    found: dict[tuple[str, str], int] = {}
    for index in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            kind, level, sharing, size = (
                (index / name).read_text().strip()
                for name in ("type", "level", "shared_cpu_list", "size")
            )
            if kind != "Instruction":
                found[level, sharing] = int(size.removesuffix("K")) << 10
        except (OSError, ValueError):
            return None
    return sum(found.values()) or None


class _Builds:
    def require(self) -> None:
        require_compiler()

    def toolchain(self) -> str:
        return toolchain()

    def architecture(self, facts: Mapping[str, Any]) -> str:
        return str(facts.get("isa"))

    def variables(self, facts: Mapping[str, Any]) -> dict[str, str]:
        return {}

    def pretended(self, facts: dict[str, Any]) -> dict[str, Any] | None:
        return None


class _Checks:
    def __init__(self) -> None:
        self.machine: Sequence[Callable[[], Check]] = (_compiler, _compiles, _address_sanitizer)

    def of_verdict(self, device: str, notes: Sequence[str]) -> list[Check]:
        return []

    def of_isolation(self, *, can_connect: bool) -> list[Check]:
        return []


def _compiler() -> Check:
    name = "C++ compiler, Python headers"
    try:
        require_cpp()
    except PrerequisiteMissing as missing:
        return Check(name=name, ok=False, needed=False, detail="incomplete", fix=str(missing))
    return Check(name=name, ok=True, needed=False, detail="present")


def _compiles() -> Check:
    compiler = os.environ.get("CXX") or "c++"
    return compiles("C++ compiles", [compiler, "-x", "c++"], _CPP, "apt install g++")


def _address_sanitizer() -> Check:
    compiler = os.environ.get("CXX") or "c++"
    libraries = (address_runtime(compiler) or "").split()
    place = libraries[0] if libraries and all(map(os.path.isfile, libraries)) else None
    lost = f"{compiler} has no libasan: crashes of C++ candidates come without their place"
    fix = (
        "install libasan of the compiler's version (Debian, Ubuntu: apt install libgcc-VERSION-dev;"
        " Fedora: dnf install libasan)"
    )
    return found("AddressSanitizer", place, lost, fix)


class CpuBackend:
    kind = "cpu"
    first = "cpu"
    name_form = "'cpu'"

    visible_by = ""
    load_variables: Mapping[str, str] = {}
    failure_words: tuple[str, ...] = ()

    has_contexts = False
    computes_on_cores = True
    has_tf32 = False
    bench_s = 3.0
    drains_s = 0.0

    builds: Builds = _Builds()
    tools = Tools(memory=AddressSanitizer(), built_only=True, under_lease=False)
    checks: Checks = _Checks()

    def device(self, name: str) -> Device | None:
        return Device(name=name, inside="cpu", visible="") if name == self.kind else None

    def is_present(self) -> bool:
        return True

    def nodes(self) -> tuple[str, ...]:
        return ()

    def driver_version(self) -> str:
        return ""

    def lease_identity(self, device: Device, facts: Mapping[str, Any]) -> str:
        return device.name

    def cache_bytes(self, facts: Mapping[str, Any]) -> int | None:
        return cpu_cache_bytes()


CPU = CpuBackend()
