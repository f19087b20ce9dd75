"""Messages between the engine and its children that compile, prepare, probe or examine.

engine → compile child: ``Compile``.       compile child → engine: ``Built``, once or twice.
engine → autopsy child: ``Examine``.
engine → preparation child: ``Prepare``.   preparation child → engine: ``Step``…
                                           facts child → engine: ``Facts``.
                                           ceilings child → engine: ``Probed``.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from events.observations import Ceilings
from events.outcomes import KernelResources
from gpu_sandbox.api.protocols import Precision

MAX_BUILT = 64  # files of one candidate's build, which stay open until it is judged
MAX_PREPARED = 4  # candidates at a time, of one engine on one device
CACHES = "caches.zip"  # among a build's files: what compilers left when it was prepared


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


class Compile(_Message, frozen=True):
    """Import ``candidate`` so that its extensions get built; with ``late``, also try to construct
    its model, with the init inputs of ``task``."""

    task: str
    candidate: str
    late: bool


class Examine(_Message, frozen=True):
    """Call ``candidate`` once on ``device``, on inputs of ``task``'s, in a fresh interpreter that
    ``tool`` starts with ``environment`` added. The files of ``libraries`` come as descriptors with
    the frame."""

    task: str
    candidate: str
    device: str
    tool: list[str]
    environment: dict[str, str]
    libraries: list[str]


class Prepare(_Message, frozen=True):
    """Import, construct and call ``candidate`` once on ``device``, as a worker does, on inputs of
    ``task``'s that no other process gets. The files of ``libraries`` come as descriptors with the
    frame."""

    task: str
    candidate: str
    device: str
    threads: int
    precision: Precision
    libraries: list[str]


class Step(_Message, frozen=True):
    """The task's inputs are ``drawn``; the candidate is ``loaded``, was ``called``; what compilers
    left is ``kept``: an archive, which comes as a descriptor. After an exception ``kept`` follows
    at once."""

    done: Literal["drawn", "loaded", "called", "kept"]


class Built(_Message, frozen=True):
    """``failure`` is the one-line reason of a ``CompileFailed``, or empty; ``deferred`` an
    exception that may be due to the missing device: the worker imports again and decides.
    ``full_header`` counts builds that needed the real one. ``resources`` are of the kernels of all
    extensions, the worst first; ``lines`` are for each line of a generated file the candidate's
    own, or 0. The contents of ``files``, relative to the extensions directory, come as
    descriptors."""

    failure: str = ""
    log: str = ""
    deferred: str = ""
    extensions: int = 0
    full_header: int = 0
    resources: list[KernelResources] = []
    lines: dict[str, list[int]] = {}
    files: list[str] = []


class Probed(_Message, frozen=True):
    """What a device reaches, or why that is ``missing``; ``busy``: why the machine counts as busy
    while it was probed (``contention/thresholds.py``)."""

    ceilings: Ceilings | None = None
    missing: str = ""
    busy: list[str] = []


class Facts(_Message, frozen=True):
    """``missing`` is why the device can't be used, or empty."""

    facts: dict[str, Any]
    missing: str = ""
