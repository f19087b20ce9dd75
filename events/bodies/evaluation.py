"""What the sandbox is asked, and what it found."""

from __future__ import annotations

import msgspec

from events.bodies.body import Body, event
from events.observations import Observations
from events.outcomes import BaselineKind, KernelResources, Outcome, PoolUsage

__all__ = [
    "DeviceQuarantined",
    "EvaluationFaulted",
    "EvaluationFinished",
    "EvaluationRequested",
]


@event("EvaluationRequested", "decision")
class EvaluationRequested(Body, frozen=True, kw_only=True):
    """A candidate goes to the sandbox. ``incumbent`` is the best node so far, if any.

    ``same_as``: it does not, because that earlier attempt has the same normalised source; the
    verdict on it goes for this one too.
    """

    attempt: int
    source_sha256: str
    incumbent: int | None = None
    seed: int
    try_: int = msgspec.field(name="try", default=1)
    same_as: int | None = None


@event("EvaluationFinished", "in")
class EvaluationFinished(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict. Compiler and execution logs are this event's blobs, if not empty.

    ``reused`` is, in a fork, the ``run_seq`` of the parent's verdict on the same source that
    was taken instead of a new one; ``same_as`` is the attempt with the same source whose verdict
    this is; ``cached`` is one that an earlier run on this machine kept. No time was spent on
    either.
    """

    attempt: int
    outcome: Outcome
    protocol: str
    timings_s: dict[str, float]
    queue_s: float
    device: str
    isolation: list[str]
    compile_log_sha256: str | None = None
    run_log_sha256: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    usage: PoolUsage | None = None
    resources: list[KernelResources] = msgspec.field(default_factory=list)
    observations: Observations | None = None
    reused: int | None = None
    same_as: int | None = None
    cached: bool = False
    measured_at: str = ""
    """When the cached one was given, in UTC."""

    @property
    def is_new(self) -> bool:
        """Whether the sandbox worked for it, and did not give it before."""
        return self.reused is None and self.same_as is None and not self.cached

    def taken(self, *, reused: int | None = None, same_as: int | None = None) -> EvaluationFinished:
        """The same once more, from there, for what no time is spent on."""
        return msgspec.structs.replace(
            self, timings_s={}, queue_s=0.0, usage=None, reused=reused, same_as=same_as
        )


@event("EvaluationFaulted", "in")
class EvaluationFaulted(Body, frozen=True, kw_only=True):
    """The sandbox, not the candidate, failed. Attempt 0 is the baseline's measurement."""

    attempt: int
    try_: int = msgspec.field(name="try", default=1)
    message: str
    retryable: bool = True
    """False: it will fail again until the machine is mended."""
    baseline: BaselineKind = "eager"
    """Which one, for attempt 0."""


@event("DeviceQuarantined", "meta")
class DeviceQuarantined(Body, frozen=True, kw_only=True):
    """The process that writes the log uses this device no more."""

    device: str
    reason: str
