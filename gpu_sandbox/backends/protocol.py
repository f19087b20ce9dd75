"""The engine's protocol of one kind of device.

Each kind is one module here, listed in ``known.py``; no other module of the engine's side asks
which kind a device is. Nothing here imports torch or opens a device: facts come from a child.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from events.observations import Counters
from gpu_sandbox.api.check import Check
from gpu_sandbox.api.device import Device


class Backend(Protocol):
    """One kind of device."""

    kind: str
    """What its devices' names begin with."""
    first: str
    """The name of its first device."""
    name_form: str
    """How a device is named, for an error message."""

    visible_by: str
    """Environment variable that says which devices a process sees; empty if it sees them all."""
    load_variables: Mapping[str, str]
    """Environment variables that its libraries read when they are loaded, in every child."""

    failure_words: tuple[str, ...]
    """Names of its libraries, in the last line of a process that failed because of the device."""

    has_contexts: bool
    """A process needs a context, which takes a second to make: so processes are made ahead of
    time, the reference keeps its own, and one that the kernel holds still holds the device."""
    computes_on_cores: bool
    """The cores that time it are the device. On others they only launch kernels."""
    has_tf32: bool
    """Float32 products may be rounded to TF32."""
    bench_s: float
    """Default limit on taking pairs."""
    drains_s: float
    """How long work that a stopped process has queued may go on."""

    builds: Builds
    tools: Tools
    checks: Checks

    def device(self, name: str) -> Device | None:
        """The device of that name; None for a name of another kind.

        Raises ``PrerequisiteMissing`` for one that is hidden from this process.
        """

    def is_present(self) -> bool:
        """Whether this machine seems to have one."""

    def nodes(self) -> tuple[str, ...]:
        """Device nodes that a child of any of its devices needs."""

    def driver_version(self) -> str:
        """Text that changes with the driver; empty without one."""

    def lease_identity(self, device: Device, facts: Mapping[str, Any]) -> str:
        """The same for every engine on this machine, however it names the device."""

    def cache_bytes(self, facts: Mapping[str, Any]) -> int | None:
        """Size of the caches that data may stay in between calls; None if unknown."""


class Builds(Protocol):
    """How extensions for a kind of device are compiled. Compile children see no device."""

    def require(self) -> None:
        """Raises ``PrerequisiteMissing`` where extensions can't be compiled."""

    def toolchain(self) -> str:
        """Versions of the compilers, for keys of caches."""

    def architecture(self, facts: Mapping[str, Any]) -> str:
        """What is compiled for, for keys of caches."""

    def variables(self, facts: Mapping[str, Any]) -> dict[str, str]:
        """Environment variables of a compile child, beside those that all have."""

    def pretended(self, facts: dict[str, Any]) -> dict[str, Any] | None:
        """Facts of the device that a compile child acts as if it saw; None: nothing is hidden."""


class ToolCommand(msgspec.Struct, frozen=True):
    """What goes before the interpreter and into its environment, and what it has to read.
    ``anew``: extensions are built anew for it."""

    words: list[str]
    environment: dict[str, str]
    readable: tuple[str, ...] = ()
    anew: bool = False


class Sanitizer(Protocol):
    """A tool that says where a candidate does something illegal."""

    name: str
    """In notes."""
    title: str
    """Over its findings."""

    def command(self) -> ToolCommand | None:
        """None where it is not installed."""

    def findings(self, text: str, lines: Mapping[str, Sequence[int]]) -> list[str]:
        """Findings in its output, a line each. ``lines``: see ``sanitizer_reports.py``."""


class CounterTool(Protocol):
    """A tool that counts what one launch of a kernel does."""

    def refusal(self) -> str:
        """Why nothing can be counted here, in one line; empty where it can."""

    def command(self, kernel: str) -> ToolCommand:
        """For the first launch of that kernel."""

    def read(self, output: str, kernel: str) -> Counters | str:
        """Counters in its output; or why there are none, in one line."""


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """Tools that look into one extra run of a candidate."""

    memory: Sanitizer
    races: Sanitizer | None = None
    counters: CounterTool | None = None
    crashes: re.Pattern[str] | None = None
    """Reasons of crashes that ``memory`` may explain, besides deadly signals."""
    built_only: bool
    """Sanitizers see a candidate's extensions only."""
    under_lease: bool
    """They run on the device; otherwise beside compilers."""
    connect: str = ""
    """Their name, if they must connect to the candidate's process."""


class Checks(Protocol):
    """Checks of ``engine doctor`` for a kind of device."""

    machine: Sequence[Callable[[], Check]]

    def of_verdict(self, device: str, notes: Sequence[str]) -> list[Check]:
        """From the notes of an honest candidate's verdict on ``device``."""

    def of_isolation(self, *, can_connect: bool) -> list[Check]:
        """What isolation prevents here. ``can_connect``: tools can connect to a candidate."""
