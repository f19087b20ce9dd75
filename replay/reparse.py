"""A log's replies, read once more by the reader of today.

A replay takes what was made of a reply out of the log. So a better reader changes no recorded run;
what it would make of the same replies is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from agents.replies.parse import Parsed, parse
from engine.config import config_from_log
from engine.loop.logged_replies import logged_reply
from engine.loop.prompts import source_of
from engine.loop.texts import Texts
from events.bodies import (
    AgentCalled,
    AgentReplied,
    NodeSelected,
    ReplyParsed,
    ReplyRejected,
    RunForked,
    RunStarted,
)
from events.envelope import Event, sha256_hex
from projections.search.tree import Tree

__all__ = ["Reread", "Verdict", "reread"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a reply: ``via`` of a usable one, else the reason why it is none."""

    via: str | None = None
    reason: str | None = None
    texts: dict[str, str] = {}
    """Of a usable one: the sha256 of its texts by name."""

    def __str__(self) -> str:
        return f"read by {self.via}" if self.via else f"not usable: {self.reason}"


class Reread(msgspec.Struct, frozen=True, kw_only=True):
    """One reply; ``recorded`` is None where the log ends before it was read."""

    run_seq: int
    call: int
    attempt: int
    role: str
    recorded: Verdict | None
    now: Verdict

    @property
    def same(self) -> bool:
        """Whether both come to the same texts, or to none; wordings of reasons may differ."""
        return self.recorded is not None and self.recorded.texts == self.now.texts


def reread(events: Iterable[Event], load: Callable[[str], str]) -> Iterator[Reread]:
    """Every reply of a run, in order. ``load`` reads a text of the log."""
    texts, tree = Texts(load), Tree()
    started: RunStarted | None = None
    reasks = 0
    called: dict[int, AgentCalled] = {}
    selected: dict[int, int] = {}
    open_: dict[int, Reread] = {}
    for event in events:
        body = event.body
        match body:
            case RunStarted():
                started = body
                reasks = config_from_log(body.config).search.reasks
            case RunForked() if started is not None:
                started = body.applied(started)
                reasks = config_from_log(started.config).search.reasks
            case NodeSelected():
                selected[body.attempt] = body.node
            case AgentCalled():
                called[body.call] = body
            case AgentReplied() if body.call in called:
                asked = called[body.call]
                now = _read(asked, body, tree, selected[asked.attempt], texts, reasks=reasks)
                open_[body.call] = Reread(
                    run_seq=event.run_seq, call=body.call, attempt=body.attempt, role=body.role,
                    recorded=None, now=now,
                )  # fmt: skip
            case ReplyParsed() | ReplyRejected() if body.call in open_:
                yield msgspec.structs.replace(open_.pop(body.call), recorded=_recorded(body))
        tree.apply(body)
    yield from open_.values()


def _read(
    asked: AgentCalled, body: AgentReplied, tree: Tree, node: int, texts: Texts, *, reasks: int
) -> Verdict:
    plan = tree[asked.attempt].annotated_sha256
    read = parse(
        asked.role,
        logged_reply(body, texts.get),
        source_of(tree[node], texts),
        marked=texts.get(plan) if asked.reply == "spans" else None,
        is_last=asked.ask >= reasks,
    )
    if not isinstance(read, Parsed):
        return Verdict(reason=read.reason)
    found = {name: getattr(read, name) for name in ("advice", "annotated", "source")}
    return Verdict(
        via=read.via,
        texts={name: sha256_hex(text.encode()) for name, text in found.items() if text is not None},
    )


def _recorded(body: ReplyParsed | ReplyRejected) -> Verdict:
    if isinstance(body, ReplyRejected):
        return Verdict(reason=body.reason)
    found = {name: getattr(body, f"{name}_sha256") for name in ("advice", "annotated", "source")}
    return Verdict(
        via=body.via, texts={name: sha for name, sha in found.items() if sha is not None}
    )
