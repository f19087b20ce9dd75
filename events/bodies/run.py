"""How a run starts, goes on and ends, and what its baselines are."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from events.bodies.body import Body, event
from events.bodies.calls import Usage
from events.outcomes import BaselineKind, Outcome

__all__ = [
    "FORMAT",
    "OLDER_FORMATS",
    "BaselineMeasured",
    "BaselineRequested",
    "BudgetExhausted",
    "DeadlineReached",
    "GivenKernel",
    "Price",
    "RunForked",
    "RunPaused",
    "RunResumed",
    "RunStarted",
    "RunStopped",
    "StopRequested",
    "TaskRejected",
]


FORMAT = "0.2"
"""Of new runs. A change of a rule, of a draw or of the state's digest is another format."""
OLDER_FORMATS = ("0.1",)


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars in millionths per million tokens, that is: usd_micros per token × 1e6."""

    input_usd_micros_per_mtok: int
    output_usd_micros_per_mtok: int
    cache_read_usd_micros_per_mtok: int
    cache_write_usd_micros_per_mtok: int


class GivenKernel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's own kernel, frozen when the run began: ``name`` is its file's, ``sha256`` that
    of its text, a blob, and ``key`` the digest of its normalised source."""

    name: str
    sha256: str
    key: str


@event("RunStarted", "in", ver=3)
class RunStarted(Body, frozen=True, kw_only=True):
    """The whole resolved configuration and everything a replay has to know."""

    title: str
    config: dict[str, Any]
    task_name: str
    task_sha256: str
    templates: dict[str, str]
    """Prompt template name → sha256 of its text; the texts are this event's blobs."""
    seed: int
    prices: dict[str, Price]
    prices_dated: str
    """When the table was last checked; prices of the configuration are in ``config``."""
    versions: dict[str, str]
    device: dict[str, Any]
    canned: bool
    """True when any role's replies come from a playbook: such a run proves no agent."""
    estimates: dict[str, Usage] = msgspec.field(default_factory=dict)
    """What one call of each role was expected to use, before there was one to go by."""
    given: GivenKernel | None = None
    """Attempt 1, if there is one: no role is asked for it."""
    format: str = FORMAT
    """Names the rules and draws that the run is searched by. A run is read in any format, and
    searched, resumed and replayed in its own only."""


@event("RunResumed", "in")
class RunResumed(Body, frozen=True, kw_only=True):
    """A new process took the run over. Calls sent but not answered are in doubt."""

    versions: dict[str, str]
    extra_attempts: int = 0
    extra_usd_micros: int = 0
    extra_tokens: int = 0
    extra_device_ms: int = 0
    extra_wall_ms: int = 0
    worked_ms: int = 0
    """How long processes had worked on the run until now, by the log's times."""
    require_isolation: str | None = None
    """The tier that this process asked for, where that is another than the run's."""
    mailbox: str | None = None
    """Where this process looked for the run's mailbox, where that is another directory."""
    unsent: list[int] = msgspec.field(default_factory=list)
    """Calls without an answer that had not been sent when the last process ended: the newest try
    waited for its turn, or to be made again. Older bodies have none of them."""


@event("RunForked", "in")
class RunForked(Body, frozen=True, kw_only=True):
    """The first event of a fork's own: what comes before is its parent's.

    Calls sent but not answered are in doubt, as after ``RunResumed``. Decisions that were
    due at the fork are made anew, under ``config``.
    """

    parent: str
    """The parent's uid; ``at`` is the ``run_seq`` of its last event that the fork shares."""
    at: int
    config: dict[str, Any]
    """The whole configuration from here on. ``changed`` are the keys that were set."""
    changed: dict[str, Any]
    replies: Literal["live", "recorded"]
    """``recorded``: out of the parent's log, where it has one to the identical request."""
    evaluations: Literal["anew", "recorded"]
    """``recorded``: the parent's verdict, where it has one on the identical source."""
    prices: dict[str, Price]
    """Of models that had none before; a price that a run has logged stays its price."""
    versions: dict[str, str]
    canned: bool
    """True when a reply before or after the fork may come from a playbook."""
    worked_ms: int = 0
    """As in ``RunResumed``, on the part that is shared."""

    def applied(self, started: RunStarted) -> RunStarted:
        """The run's start as if it had been configured so from the beginning."""
        return msgspec.structs.replace(
            started,
            config=self.config,
            seed=self.config["search"]["seed"],
            prices={**self.prices, **started.prices},
            canned=self.canned,
        )


@event("StopRequested", "in")
class StopRequested(Body, frozen=True, kw_only=True):
    """The run was asked to end: ``source`` is a signal's name or a command.

    ``after_attempts``: not now, but when the attempts in flight are done.
    """

    source: str
    after_attempts: bool = False


@event("DeadlineReached", "in")
class DeadlineReached(Body, frozen=True, kw_only=True):
    """The wall-clock budget of the run ran out: the clock as the core sees it."""

    budget: str


@event("BaselineRequested", "decision")
class BaselineRequested(Body, frozen=True, kw_only=True):
    """Measure the root: the reference module, eager; or another baseline beside it."""

    try_: int = msgspec.field(name="try", default=1)
    baseline: BaselineKind = "eager"


@event("BaselineMeasured", "in")
class BaselineMeasured(Body, frozen=True, kw_only=True):
    """The root's eager runtime; or a compiled baseline's, with its ``outcome``, as if it
    were a candidate: its runtime is the root's times the paired ratio, null if it failed.

    ``spread`` is (p95 − p5) / median of eager's repetitions. ``conditions`` are those that
    it was measured under; eager's, in logs of compiled baselines from before they had their own.
    """

    runtime_ms: float | None
    spread: float | None
    repetitions: int
    timings_s: dict[str, float]
    isolation: list[str]
    notes: list[str] = msgspec.field(default_factory=list)
    audit: list[str] = msgspec.field(default_factory=list)
    """What a kernel that computes nothing gets away with on this task, and how far its reference
    is from repeating itself; empty if nothing."""
    conditions: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the figure depends on: device, versions, threads, precision modes, clocks."""
    baseline: BaselineKind = "eager"
    outcome: Outcome | None = None
    cached: bool = False
    """Measured before, for the same task, device and versions."""
    measured_at: str = ""
    """The moment, in UTC; empty in logs from before it was kept."""
    labels: list[str] = msgspec.field(default_factory=list)
    """``busy-machine``, or nothing: what to know beside the runtime."""


@event("TaskRejected", "in")
class TaskRejected(Body, frozen=True, kw_only=True):
    """The task can't be searched: its reference crashes, is nondeterministic, …"""

    reason: str
    detail: str = ""


@event("RunPaused", "decision")
class RunPaused(Body, frozen=True, kw_only=True):
    """Nothing can go on now; ``engine resume`` goes on from here."""

    reason: str


@event("BudgetExhausted", "decision")
class BudgetExhausted(Body, frozen=True, kw_only=True):
    """No further attempt is started. ``budget``: ``attempts``, ``usd``, ``tokens``,
    ``device``, ``wall``, ``target_speedup``, ``patience`` or ``nothing_eligible``."""

    budget: str


@event("RunStopped", "decision")
class RunStopped(Body, frozen=True, kw_only=True):
    """The end. ``finished``: the attempts are made; ``exhausted``: another budget ended it."""

    status: Literal["finished", "exhausted", "interrupted", "failed"]
    reason: str
    best: int | None = None
