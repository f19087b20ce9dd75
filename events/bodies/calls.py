"""What agents are asked, and what they answer."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from events.bodies.body import Body, Role, event

__all__ = [
    "AgentCalled",
    "AgentFailed",
    "AgentReplied",
    "CallParams",
    "CapabilityLearned",
    "Pick",
    "PromptRendered",
    "ReplyDeferred",
    "ReplyFile",
    "ReplyForm",
    "ReplyNotTaken",
    "ReplyParsed",
    "ReplyRejected",
    "Usage",
    "WaitEnded",
]

ReplyForm: TypeAlias = Literal["whole", "spans"]


class CallParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the configuration asks of a model; what was sent is in ``AgentReplied.sent``."""

    temperature: float | None = None
    effort: str | None = None
    max_tokens: int
    thinking: int | msgspec.UnsetType = msgspec.UNSET
    """Tokens to think with before the answer. Unset without any: a request's digest covers this
    struct, and ``recorded:LOG`` finds replies in older logs by it."""


class Pick(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a planner was picked of several: ``untried``, the first that was never asked, or by its
    ``bound``. ``tie`` is the index drawn among equal ones, in the order of the list."""

    rule: Literal["untried", "bound"]
    tie: int | None = None
    down: list[str] = []
    """Planners that were left out, as they are down."""


@event("AgentCalled", "decision")
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
    draws: list[int] = msgspec.field(default_factory=list)
    model: str
    params: CallParams
    template: str
    """Which system message: ``main``, ``alternate_1`` or ``alternate_2``."""
    wait_ms: int = 0
    hints: list[int] = msgspec.field(default_factory=list)
    """The user's hints that the prompt shows."""
    pick: Pick | None = None
    """None where there is one model to ask, and where it is the one that was asked before."""
    reply: ReplyForm = "whole"
    """A whole file, or ``spans``: replacements of the plan's marked blocks."""


@event("PromptRendered", "meta")
class PromptRendered(Body, frozen=True, kw_only=True):
    """What is sent at once: the try's turn has come. Its blobs are the prompt's parts in order."""

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


@event("ReplyDeferred", "in")
class ReplyDeferred(Body, frozen=True, kw_only=True):
    """The request was handed over, and its reply comes later, maybe to another process.

    ``name`` is what the request is called there: of its run, call, role and content, so the
    same however often the run is resumed. ``place`` is where the reply is awaited, for people.
    ``batch`` is the provider's id of the batch that it is part of.
    """

    attempt: int
    role: Role
    call: int
    try_: int = msgspec.field(name="try")
    name: str
    place: str
    batch: str | None = None


@event("WaitEnded", "in")
class WaitEnded(Body, frozen=True, kw_only=True):
    """Nothing but deferred replies was left to wait for, and the process waits no longer.

    ``trouble`` says why replies could not be asked for, if so.
    """

    trouble: str | None = None


class ReplyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a mailbox, by name, as it was when it was read."""

    name: str
    sha256: str


@event("ReplyNotTaken", "meta")
class ReplyNotTaken(Body, frozen=True, kw_only=True):
    """A file that answers a request and was not taken as its reply, and why not: it is not
    whole, or another was there before. Noted once for each content."""

    call: int
    file: ReplyFile
    reason: str


@event("AgentReplied", "in")
class AgentReplied(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A whole reply arrived. Its text, and its tool input if any, are this event's blobs; so are
    the model's thoughts, and what else was sent, where the provider sets them apart.

    ``usage`` is null where the server reported none: what such a call cost is not known.
    ``reused`` is the ``run_seq`` of the reply that was taken instead of a model's, in the
    fork's parent or in the log of ``recorded:LOG``; its ``usage`` is nothing, because nothing
    was paid. ``file`` is the mailbox's that was taken. ``latency_ms`` of a reply that was
    deferred is how long the process waited that took it.
    """

    attempt: int
    role: Role
    call: int
    try_: int = msgspec.field(name="try")
    usage: Usage | None
    latency_ms: int
    stop_reason: str
    served_by: str
    """The model that answered, as the provider names it."""
    sent: dict[str, Any]
    """The parameters that were really sent."""
    reply_sha256: str
    tool_input_sha256: str | None = None
    thoughts_sha256: str | None = None
    others_sha256: str | None = None
    """Calls that are not plainly the tool's, and parts of unknown kinds, as JSON."""
    canned: bool = False
    reused: int | None = None
    file: ReplyFile | None = None


@event("ReplyParsed", "in")
class ReplyParsed(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The reply was usable. A plan has advice and annotated source, code has source.

    ``source_key`` is the digest of the normalised source, by which duplicates are
    known. ``via`` says how the answer came: ``tool``, ``json`` or ``fence``. ``spliced``: a
    plan's fragment, or a coder's replacements, were put into the whole; ``kept_chars`` of the
    source did not have to be repeated for it.
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
    kept_chars: int = 0


@event("ReplyRejected", "in")
class ReplyRejected(Body, frozen=True, kw_only=True):
    """The reply was not usable, with the reason that the agent is shown."""

    attempt: int
    role: Role
    call: int
    reason: str


@event("AgentFailed", "in")
class AgentFailed(Body, frozen=True, kw_only=True):
    """No reply: ``error`` is one of ``rate_limited``, ``overloaded``, ``server_error``,
    ``connection``, ``timed_out``, ``bad_request``, ``unauthorized``, ``too_large``,
    ``no_reply`` (a playbook or mailbox with nothing for this request), ``capability``
    (a parameter, or its value, was refused; ``CapabilityLearned`` says which) or ``unknown``.

    ``usage`` is what the server said that the try took all the same, such as a stream that was
    cut; null where it said nothing."""

    attempt: int
    role: Role
    call: int
    try_: int = msgspec.field(name="try")
    error: str
    message: str
    retryable: bool
    retry_after_ms: int | None = None
    usage: Usage | None = None


@event("CapabilityLearned", "in")
class CapabilityLearned(Body, frozen=True, kw_only=True):
    """A model refused a parameter, so it is not sent to it again in this run; or, where there is
    a ``limit``, it named that: the most tokens of output (``param`` is ``max_tokens``), or of
    prompt and output (``context``), and no more is asked of it."""

    model: str
    param: str
    message: str
    limit: int | None = None
