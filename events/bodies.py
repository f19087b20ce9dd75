"""Every fact that a run can log: past tense, frozen, with an explicit wire name.

A body is data only. ``kind`` says who made it: ``in`` is something that happened to
the run and may steer it, ``decision`` is something the core decided from what it had
seen, ``meta`` is a note that steers nothing. Large texts are blobs; a body names them
by ``*_sha256``. To change a body: raise its ``ver`` and add an upcaster
(``events.upcast``); never change what an old version means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from events.outcomes import BaselineKind, KernelResources, Outcome, PoolUsage

Kind = Literal["in", "decision", "meta"]
Role = str


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all event bodies."""

    TYPE: ClassVar[str] = ""
    KIND: ClassVar[Kind] = "meta"
    VER: ClassVar[int] = 1


BODIES: dict[str, type[Body]] = {}

_B = TypeVar("_B", bound=type[Body])


def _event(name: str, kind: Kind, ver: int = 1) -> Callable[[_B], _B]:
    """Register a body under its wire name; the class may be renamed, the name may not."""

    def register(cls: _B) -> _B:
        cls.TYPE, cls.KIND, cls.VER = name, kind, ver
        if name in BODIES:
            raise ValueError(f"two bodies claim the wire name {name!r}")
        BODIES[name] = cls
        return cls

    return register


# -- the run ----------------------------------------------------------------------------


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars in millionths per million tokens, that is: usd_micros per token × 1e6."""

    input_usd_micros_per_mtok: int
    output_usd_micros_per_mtok: int
    cache_read_usd_micros_per_mtok: int
    cache_write_usd_micros_per_mtok: int


@_event("RunStarted", "in")
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
    flags: list[str]
    """Behaviour flags: an engine that improves a rule keeps the old one for old logs."""
    versions: dict[str, str]
    device: dict[str, Any]
    canned: bool
    """True when any role's replies come from a playbook: such a run proves no agent."""


@_event("RunResumed", "in")
class RunResumed(Body, frozen=True, kw_only=True):
    """A new process took the run over. Calls sent but not answered are in doubt."""

    versions: dict[str, str]
    extra_attempts: int = 0
    extra_usd_micros: int = 0
    require_isolation: str | None = None
    """The tier that this process asked for, where it was told another than the run's."""


@_event("StopRequested", "in")
class StopRequested(Body, frozen=True, kw_only=True):
    """Somebody asked the run to end: ``source`` is a signal's name or a command."""

    source: str


@_event("DeadlineReached", "in")
class DeadlineReached(Body, frozen=True, kw_only=True):
    """The wall-clock budget of the run ran out."""

    budget: str


@_event("BaselineRequested", "decision")
class BaselineRequested(Body, frozen=True, kw_only=True):
    """Measure the root: the reference module, eager; or another baseline beside it."""

    try_: int = msgspec.field(name="try", default=1)
    baseline: BaselineKind = "eager"


@_event("BaselineMeasured", "in")
class BaselineMeasured(Body, frozen=True, kw_only=True):
    """The root's eager runtime; or a compiled baseline's, with its ``outcome``, as if it
    were a candidate: its runtime is the root's times the paired ratio, null if it failed.

    ``spread`` is (p95 − p5) / median of eager's repetitions. ``conditions`` are those that
    eager was measured under.
    """

    runtime_ms: float | None
    spread: float | None
    repetitions: int
    timings_s: dict[str, float]
    isolation: list[str]
    notes: list[str] = []
    audit: list[str] = []
    """What a kernel that computes nothing gets away with on this task; empty if nothing."""
    conditions: dict[str, Any] = {}
    """What the figure depends on: device, versions, threads, precision modes, clocks."""
    baseline: BaselineKind = "eager"
    outcome: Outcome | None = None
    cached: bool = False
    """Measured before, for the same task, device and versions."""


@_event("TaskRejected", "in")
class TaskRejected(Body, frozen=True, kw_only=True):
    """The task can't be searched: its reference crashes, is nondeterministic, …"""

    reason: str
    detail: str = ""


@_event("RunPaused", "decision")
class RunPaused(Body, frozen=True, kw_only=True):
    """Nothing can go on now; ``engine resume`` goes on from here."""

    reason: str


@_event("BudgetExhausted", "decision")
class BudgetExhausted(Body, frozen=True, kw_only=True):
    """No further attempt is started. ``budget``: ``attempts``, ``usd``, ``wall``,
    ``target_speedup``, ``patience`` or ``nothing_eligible``."""

    budget: str


@_event("RunStopped", "decision")
class RunStopped(Body, frozen=True, kw_only=True):
    """The end. ``finished``: the attempts are made; ``exhausted``: another budget ended it."""

    status: Literal["finished", "exhausted", "interrupted", "failed"]
    reason: str
    best: int | None = None


# -- selection --------------------------------------------------------------------------


class Draws(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The random integers that a selection used; null where it used none.

    ``coin`` is out of 2**32; ``leaf`` and ``tie`` are indices into the candidates in
    ascending node order.
    """

    coin: int | None = None
    leaf: int | None = None
    tie: int | None = None


@_event("NodeSelected", "decision")
class NodeSelected(Body, frozen=True, kw_only=True):
    """An attempt starts from ``node``.

    ``rule`` is what picked it: ``exploit`` and ``explore`` are the adapted epsilon-greedy
    rule's, ``sample`` and ``repair`` those of best-of-K.
    ``eligible`` counts the nodes that could have been taken. ``visit`` counts earlier
    attempts from a node with the same source on the same path (improve or repair).
    """

    attempt: int
    node: int
    rule: Literal["exploit", "explore", "sample", "repair"]
    repair: bool
    visit: int
    draws: Draws
    eligible: int
    state_digest: str


@_event("AttemptAbandoned", "decision")
class AttemptAbandoned(Body, frozen=True, kw_only=True):
    """The attempt ends without a candidate: it counts toward B and is never selectable."""

    attempt: int
    reason: str


# -- agents -----------------------------------------------------------------------------


class CallParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the configuration asks of a model; what was sent is in ``AgentReplied.sent``."""

    temperature: float | None = None
    effort: str | None = None
    max_tokens: int


@_event("AgentCalled", "decision")
class AgentCalled(Body, frozen=True, kw_only=True):
    """A role is asked. Same ``call`` with a higher ``try``: the same request once more.

    ``ask`` above 0: the previous reply was unusable and is asked again with the reason.
    ``window`` is what the prompt shows, in order; ``pool`` is what it was sampled from.
    ``draws`` are the indices drawn from the pool, where it was larger than the cap.
    """

    attempt: int
    role: Role
    call: int
    try_: int = msgspec.field(name="try")
    ask: int = 0
    window: list[int]
    pool: list[int]
    draws: list[int] = []
    model: str
    params: CallParams
    template: str
    """Which system message: ``main``, ``alternate_1`` or ``alternate_2``."""
    wait_ms: int = 0


@_event("PromptRendered", "meta")
class PromptRendered(Body, frozen=True, kw_only=True):
    """What is about to be sent; its blobs are the prompt's parts in order."""

    attempt: int
    role: Role
    call: int
    try_: int = msgspec.field(name="try")
    request_sha256: str
    parts: list[str]


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens as the provider counts them; ``input_tokens`` leaves the cached ones out."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@_event("AgentReplied", "in")
class AgentReplied(Body, frozen=True, kw_only=True):
    """A whole reply arrived. Its text, and its tool input if any, are this event's blobs."""

    attempt: int
    role: Role
    call: int
    try_: int = msgspec.field(name="try")
    usage: Usage
    latency_ms: int
    stop_reason: str
    served_by: str
    """The model that answered, as the provider names it."""
    sent: dict[str, Any]
    """The parameters that were really sent."""
    reply_sha256: str
    tool_input_sha256: str | None = None
    canned: bool = False


@_event("ReplyParsed", "in")
class ReplyParsed(Body, frozen=True, kw_only=True):
    """The reply was usable. A plan has advice and annotated source, code has source.

    ``source_key`` is the digest of the normalised source, by which duplicates are
    known. ``via`` says how the answer came: ``tool`` or ``fence``.
    """

    attempt: int
    role: Role
    call: int
    via: str
    advice_sha256: str | None = None
    annotated_sha256: str | None = None
    source_sha256: str | None = None
    source_key: str | None = None
    explanation_sha256: str | None = None
    anchors: int = 0
    spliced: bool = False


@_event("ReplyRejected", "in")
class ReplyRejected(Body, frozen=True, kw_only=True):
    """The reply was not usable, with the reason that the agent is told."""

    attempt: int
    role: Role
    call: int
    reason: str


@_event("AgentFailed", "in")
class AgentFailed(Body, frozen=True, kw_only=True):
    """No reply: ``error`` is one of ``rate_limited``, ``overloaded``, ``server_error``,
    ``connection``, ``timed_out``, ``bad_request``, ``unauthorized``, ``too_large``,
    ``no_reply`` (a playbook or mailbox with nothing for this request), ``capability``
    (a parameter was refused; ``CapabilityLearned`` says which) or ``unknown``."""

    attempt: int
    role: Role
    call: int
    try_: int = msgspec.field(name="try")
    error: str
    message: str
    retryable: bool
    retry_after_ms: int | None = None


@_event("CapabilityLearned", "in")
class CapabilityLearned(Body, frozen=True, kw_only=True):
    """A model refused a parameter, so it is not sent to it again in this run."""

    model: str
    param: str
    message: str


# -- evaluation -------------------------------------------------------------------------


@_event("EvaluationRequested", "decision")
class EvaluationRequested(Body, frozen=True, kw_only=True):
    """A candidate goes to the sandbox. ``incumbent`` is the best node so far, if any."""

    attempt: int
    source_sha256: str
    incumbent: int | None = None
    seed: int
    try_: int = msgspec.field(name="try", default=1)


@_event("EvaluationFinished", "in")
class EvaluationFinished(Body, frozen=True, kw_only=True):
    """The verdict. Compiler and execution logs are this event's blobs, if not empty."""

    attempt: int
    outcome: Outcome
    protocol: str
    timings_s: dict[str, float]
    queue_s: float
    device: str
    isolation: list[str]
    compile_log_sha256: str | None = None
    run_log_sha256: str | None = None
    notes: list[str] = []
    usage: PoolUsage | None = None
    resources: list[KernelResources] = []


@_event("EvaluationFaulted", "in")
class EvaluationFaulted(Body, frozen=True, kw_only=True):
    """The sandbox, not the candidate, failed. Attempt 0 is the baseline's measurement."""

    attempt: int
    try_: int = msgspec.field(name="try", default=1)
    message: str
    retryable: bool = True
    """False: it will fail again until somebody mends the machine."""
    baseline: BaselineKind = "eager"
    """Which one, for attempt 0."""


@_event("DeviceQuarantined", "meta")
class DeviceQuarantined(Body, frozen=True, kw_only=True):
    """The process that writes the log uses this device no more."""

    device: str
    reason: str
