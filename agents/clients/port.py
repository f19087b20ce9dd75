"""The client port: one request in, one reply or one typed failure out.

A client never retries by itself: a retry is a decision of the search, so that it is
logged and replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from agents.clients.pace import Allowance
from events.bodies import CallParams, ReplyFile, Usage

__all__ = [
    "AnswerForm", "CallFailed", "CapabilityMissing", "Client", "Deferred", "Inbox", "KeyMissing",
    "Look", "NotTaken", "Part", "Reply", "Request", "Tool", "answer_form",
]  # fmt: skip

AnswerForm = Literal["tool", "json", "fence"]


def answer_form(refused: Collection[str]) -> AnswerForm:
    """How a model that refused these parameters can be asked for a structured answer:
    through the tool, else as JSON of the tool's schema, else as text with fenced code."""
    if "tools" not in refused:
        return "tool"
    return "fence" if "response_format" in refused else "json"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the prompt. Parts up to the last ``stable`` one form the cacheable prefix."""

    name: str
    text: str
    stable: bool = False


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The structured answer that the role is asked for, as one tool with a JSON schema."""

    name: str
    description: str
    schema: dict[str, Any]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """All that a client needs, and the keys by which canned clients find their reply.

    ``params`` ask for no more than the model is known to put out.
    ``parts[0]`` is the system message; the others, in order, make one user message.
    ``node_source`` is the selected node's source; ``visit`` counts earlier attempts from
    a node with that source on the same path; ``refused`` names the parameters that this
    model is known not to accept.
    """

    role: str
    model: str
    """The model's name without the client's prefix."""
    parts: tuple[Part, ...]
    params: CallParams
    tool: Tool
    node_source: str
    visit: int
    ask: int = 0
    timeout_s: float = 600.0
    refused: frozenset[str] = frozenset()
    name: str = ""
    """Of run, call, role and content, and so the same however often a run is resumed. At most
    64 letters, digits and hyphens."""
    batch: str | None = None
    """The batch that it was handed over in, if it was."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply. ``tool_input`` is the structured answer, if the model used the tool.

    ``usage`` is None where the server reports none.
    """

    text: str
    tool_input: dict[str, Any] | None
    usage: Usage | None
    stop_reason: str
    """``end_turn``, ``tool_use``, ``max_tokens``, ``refusal``, or the provider's other word."""
    served_by: str
    sent: dict[str, Any]
    canned: bool = False
    reused: int | None = None
    """The event of an earlier run that has this reply, where nobody was asked for it."""
    file: ReplyFile | None = None
    """The mailbox's file that it was read from."""
    allowance: Allowance | None = None
    """What the provider says is left of its limits."""
    thoughts: str = ""
    """What the model thought, where the provider sets that apart."""
    others: tuple[dict[str, Any], ...] = ()
    """What else was sent: calls that are not plainly the tool's, with ``name`` and ``arguments``
    as they were written, and parts of unknown kinds."""

    @property
    def cut_off(self) -> bool:
        """Whether an output limit ended it."""
        return self.stop_reason in ("max_tokens", "model_context_window_exceeded")


class CallFailed(Exception):
    """No reply. ``error`` is one of the words that ``events.bodies.AgentFailed`` lists;
    ``usage`` is what the server said that it took all the same, None where it said nothing."""

    def __init__(
        self,
        error: str,
        message: str,
        *,
        retryable: bool,
        retry_after_s: float | None = None,
        allowance: Allowance | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.allowance = allowance
        self.usage = usage


class KeyMissing(Exception):
    """A client needs a key, or what else is set outside, that isn't there; the message says
    what to do."""


class CapabilityMissing(Exception):
    """The model refused the parameter ``param``; the search notes it and asks without it. With
    a ``limit`` it named the most tokens that it takes, as ``CapabilityLearned`` has it; the
    search asks for no more."""

    def __init__(self, param: str, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.message = message
        self.limit = limit


class NotTaken(msgspec.Struct, frozen=True, kw_only=True):
    """A file that answers the request ``name`` and is not taken as its reply, and why."""

    name: str
    file: ReplyFile
    reason: str


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What an inbox holds at a moment, by the names of the requests."""

    arrived: Mapping[str, Reply | CallFailed | CapabilityMissing] = {}
    not_taken: Sequence[NotTaken] = ()
    changing: bool = False
    """A reply is being written just now: it is worth looking again soon."""
    trouble: str | None = None
    """Why some could not be asked for."""


class Inbox(Protocol):
    """Where replies that come later are looked for."""

    place: str
    """For people."""
    poll_s: float
    """How often it makes sense to look."""

    async def post(self, requests: Sequence[Request]) -> str | None:
        """Hand over together what was not handed over yet; returns the batch's id, if it has
        one. Raises ``CallFailed``: then none of them is handed over."""
        ...

    async def look(self, requests: Sequence[Request]) -> Look:
        """What has come for these. Raises ``CallFailed`` when nobody can be asked now."""
        ...

    async def strays(self, taken: Mapping[str, ReplyFile]) -> Sequence[NotTaken]:
        """Files that came for requests that have their reply, by the requests' names."""
        ...


class Deferred(Exception):
    """No reply yet: it is to be looked for in ``inbox``. ``posted``: the request is handed
    over; otherwise that is to be done, together with others."""

    def __init__(self, inbox: Inbox, *, posted: bool) -> None:
        super().__init__(inbox.place)
        self.inbox = inbox
        self.posted = posted


class Client(Protocol):
    """Answers requests. Safe to call concurrently; cancelling a call abandons it."""

    @property
    def canned(self) -> bool:
        """True when replies are prepared texts, which is labelled wherever they show."""
        ...

    async def send(self, request: Request) -> Reply:
        """Raises ``CallFailed``, ``CapabilityMissing`` or ``Deferred``. A deferred request may
        be sent again, which hands it over once. The client keeps to ``request.timeout_s``: it
        alone knows what the server said of its use until then."""
        ...

    async def aclose(self) -> None: ...
