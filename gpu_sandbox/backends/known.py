"""Kinds of devices, and devices by name."""

from __future__ import annotations

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.backends.cpu import CPU
from gpu_sandbox.backends.cuda import CUDA
from gpu_sandbox.backends.protocol import Backend

BACKENDS: tuple[Backend, ...] = (CPU, CUDA)
"""The CPU, which is always present, then the others; ``auto`` means the last that is."""

_BY_KIND = {backend.kind: backend for backend in BACKENDS}


def backend_of(device: Device) -> Backend:
    return _BY_KIND[_kind(device.name)]


def backend_named(names: str) -> Backend:
    """The backend of one or more devices of one kind. Raises ``PrerequisiteMissing``."""
    backend = _BY_KIND.get(_kind(names))
    if backend is None:
        raise _no_device(names)
    return backend


def device_named(name: str) -> Device:
    """Raises ``PrerequisiteMissing`` for a name that no kind of device has."""
    for backend in BACKENDS:
        if (device := backend.device(name)) is not None:
            return device
    raise _no_device(name)


def devices_named(names: str) -> list[str]:
    """``cuda:0,cuda:1`` split; each name as ``Device`` has it."""
    return [device_named(name).name for name in names.split(",")]


def visible_variables(device: Device | None = None) -> dict[str, str]:
    """Environment of a child that sees ``device`` alone, or none."""
    variables = {backend.visible_by: "" for backend in BACKENDS if backend.visible_by}
    if device is not None and (name := backend_of(device).visible_by):
        variables[name] = device.visible
    return variables


def load_variables() -> dict[str, str]:
    """Of all kinds, for the zygote."""
    return {name: value for b in BACKENDS for name, value in b.load_variables.items()}


def failure_words() -> tuple[str, ...]:
    """Of all kinds."""
    return tuple(word for backend in BACKENDS for word in backend.failure_words)


def _kind(name: str) -> str:
    return name.split(",")[0].partition(":")[0]


def _no_device(name: str) -> PrerequisiteMissing:
    forms = " or ".join(backend.name_form for backend in BACKENDS)
    return PrerequisiteMissing(f"no device {name!r}: name it {forms}")
