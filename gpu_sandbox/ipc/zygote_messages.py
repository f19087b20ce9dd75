"""What the engine and its zygote say to each other.

engine → zygote: ``Spawn`` (its descriptors travel with it), ``Kill``, ``ComputeCacheKeys``.
zygote → engine: ``Alive`` once; ``Spawned`` or ``Refused`` to each ``Spawn``, in any
order; one ``Ended`` for everything that was spawned, when nothing of it is left.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from gpu_sandbox.confine import Policy, Survey

Role: TypeAlias = Literal[
    "worker", "compiler", "preparation", "verifier", "facts", "ceilings", "autopsy"
]
MODULES: dict[Role, str] = {
    "worker": "gpu_sandbox.worker.main",
    "compiler": "gpu_sandbox.compiler.main",
    "preparation": "gpu_sandbox.compiler.first_call_main",
    "verifier": "gpu_sandbox.verifier.main",
    "facts": "gpu_sandbox.probes.device_facts_main",
    "ceilings": "gpu_sandbox.probes.peak_rates_main",
    "autopsy": "gpu_sandbox.probes.single_call_main",
}
"""Each has a ``main``, which a child of that role runs."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


class Spawn(_Message, frozen=True):
    """Fork a child in ``role``. ``policy`` confines it; null means one of our own.

    The first descriptor is its output; the others become the ``sockets`` arguments of
    its ``main``, in order. ``directory`` is where a trusted child lives.
    """

    id: int
    role: Role
    arguments: dict[str, Any]
    sockets: list[str]
    environment: dict[str, str]
    directory: str
    policy: Policy | None


class Kill(_Message, frozen=True):
    id: int


class ComputeCacheKeys(_Message, frozen=True):
    """Have compilers that are installed compute the keys of what they cache, for all that are
    forked from now on."""


ToZygote: TypeAlias = Spawn | Kill | ComputeCacheKeys


class Alive(_Message, frozen=True):
    """Torch is imported; nothing has touched a device. ``survey``: what can confine here."""

    survey: Survey


class Spawned(_Message, frozen=True):
    """``pid`` is the zygote's view. Every layer that the survey promised holds."""

    id: int
    pid: int


class Refused(_Message, frozen=True):
    """It could not be started as it should; nothing of it is left."""

    id: int
    reason: str


class Ended(_Message, frozen=True):
    """Exactly one of ``code`` and ``signal``, unless its end could not be seen.

    ``stuck``: the kernel does not let go of one of its processes. ``out_of_memory``: its
    memory limit killed something of it.
    """

    id: int
    code: int | None
    signal: int | None
    stuck: bool = False
    out_of_memory: bool = False


FromZygote: TypeAlias = Alive | Spawned | Refused | Ended
