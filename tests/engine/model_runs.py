"""Small real runs against a model server: real loop, log and clients; the sandbox is scripted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from agents.clients.port import Client
from agents.clients.turns import Turns
from agents.templates import Templates, load
from engine.config import Config, PlannerConfig, RoleConfig, Roles
from engine.core.state import State
from engine.loop.methods import team_of
from engine.loop.run import RunLoop
from engine.loop.start import recover, resumed, run_started
from engine.loop.texts import Texts
from events.bodies import (
    AgentFailed,
    AttemptAbandoned,
    Body,
    CapabilityLearned,
    EvaluationFinished,
    ReplyParsed,
    ReplyRejected,
    RunPaused,
)
from events.reader import LogReader
from events.writer import LogWriter
from tests.agents.dialects import Dialect, tool
from tests.agents.model_server import Got, ModelServer, Script
from tests.engine.outside import TASK, ScriptedEvaluator
from tests.engine.world import config_of
from tests.replayed import replayed

__all__ = [
    "ANNOTATED", "MARKED", "MODEL", "Ran", "Team", "candidate", "config", "go_on", "role_of",
    "search", "story",
]  # fmt: skip

MODEL = "openai:test-model"
_NO_MORE: Mapping[str, Client] = {}
_LINE = "        return x + x\n"
MARKED = f"        # <<<IMPROVE BEGIN>>>\n        # faster\n{_LINE}        # <<<IMPROVE END>>>\n"
ANNOTATED = TASK.replace(_LINE, MARKED)
_INSTRUCTIONS = {
    "plan": "Give exactly ONE piece of advice", "debug": "Fix your implementation",
    "code": "Explain your implementation and how", "single": "goes down.",
}  # fmt: skip


def candidate(kind: str, number: int, comment: str = "") -> str:
    """A source that the scripted sandbox judges as ``ok``, ``broken`` or ``wrong``."""
    return f'""" {kind} {number} """\n{comment}class ModelNew:\n    def forward(self, x):\n{_LINE}'


def role_of(user: str) -> str:
    """The role that a prompt is for."""
    (role,) = [role for role, words in _INSTRUCTIONS.items() if words in user]
    return role


class Team(ModelServer):
    """Answers the first requests with ``troubles``, and all others as a good model would.

    The n-th candidate is ``kinds[n]``, over again. None among the troubles is a good answer.
    ``distinct``: after so many candidates the same ones come again, but for a comment.
    """

    def __init__(
        self, api: Dialect, troubles: Iterable[Script | None] = (),
        kinds: tuple[str, ...] = ("ok",), distinct: int = 0,
    ) -> None:  # fmt: skip
        super().__init__([])
        self.api = api
        self.troubles = list(troubles)
        self._kinds = kinds
        self._distinct = distinct
        self.candidates = 0

    def script_for(self, got: Got) -> Script:
        trouble = self.troubles.pop(0) if self.troubles else None
        return self._answer(role_of(self.api.wire(got).user)) if trouble is None else trouble

    def _answer(self, role: str) -> Script:
        if role == "plan":
            answer = tool("plan", advice="Go faster.", annotated_source=MARKED)
            return self.api.reply(answer, stop="tool_use")
        kind = self._kinds[self.candidates % len(self._kinds)]
        number, comment = self.candidates + 1, ""
        if self._distinct:
            number, comment = self.candidates % self._distinct + 1, f"# take {number}\n"
        self.candidates += 1
        name = "code" if role == "single" else role
        answer = tool(name, explanation="Done.", source=candidate(kind, number, comment))
        return self.api.reply(answer, stop="tool_use")


class Ran(NamedTuple):
    state: State
    bodies: list[Body]


def config(*, timeout_s: float = 60.0, **search: int) -> Config:
    roles = Roles(
        plan=PlannerConfig(temperature=0.8, timeout_s=timeout_s),
        code=RoleConfig(temperature=0.1),
        debug=RoleConfig(temperature=0.1),
    )
    base = config_of(**{"attempts": 1, "retry_wait_ms": 1, **search})
    return msgspec.structs.replace(base, model=MODEL, roles=roles)


async def search(
    path: Path,
    client: Client,
    config: Config,
    *,
    stop_when: anyio.Event | None = None,
    turns: Turns | None = None,
    more: Mapping[str, Client] = _NO_MORE,
) -> Ran:
    """Begin a run and go on until it is over; its log is checked and replayed. ``client`` is
    that of ``MODEL``, ``more`` has those of others."""
    async with LogWriter(path) as log:
        with LogReader(path) as reader:
            texts = Texts(reader.text)
            run_id, clients = log.create_run("feed"), {MODEL: client, **more}
            loop = _loop(log, run_id, State(team_of), texts, load(), clients, turns)
            first, blobs = run_started(
                config=config, task_name="double.py", task_source=TASK, device={},
                canned=False, texts=texts,
            )  # fmt: skip
            async with anyio.create_task_group() as stopping:
                if stop_when is not None:
                    stopping.start_soon(_stop, loop, stop_when)
                state = await loop.run(first, blobs)
    return Ran(state, _checked(path))


async def _stop(loop: RunLoop, when: anyio.Event) -> None:
    await when.wait()
    loop.request_stop("SIGINT")


async def go_on(path: Path, client: Client) -> Ran:
    """Go on with the run in ``path``."""
    async with LogWriter(path) as log:
        with LogReader(path) as reader:
            known = recover(reader, 1)
            templates = Templates(texts=known.templates)
            loop = _loop(log, 1, known.state, Texts(reader.text), templates, {MODEL: client})
            state = await loop.run(resumed({}, unsent=known.unsent))
    return Ran(state, _checked(path))


def _loop(
    log: LogWriter,
    run_id: int,
    state: State,
    texts: Texts,
    templates: Templates,
    clients: Mapping[str, Client],
    turns: Turns | None = None,
) -> RunLoop:
    return RunLoop(
        log=log, run_id=run_id, uid="feed", state=state, texts=texts, templates=templates,
        clients=clients, evaluator=ScriptedEvaluator(), turns=turns,
    )  # fmt: skip


def _checked(path: Path) -> list[Body]:
    whole = replayed(path)
    assert whole.check.problems == []
    assert (whole.report.difference, whole.prompts.different) == (None, [])
    return [event.body for event in whole.events]


def story(bodies: Iterable[Body]) -> list[str]:
    """What became of each call, and of the run, a line each."""
    return [line for body in bodies if (line := _line(body))]


def _line(body: Body) -> str:
    match body:
        case AgentFailed():
            return f"{body.role} failed: {body.error}"
        case CapabilityLearned():
            return f"learned: {body.param}"
        case ReplyParsed():
            return f"{body.role} by {body.via}"
        case ReplyRejected():
            return f"{body.role} rejected: {body.reason}"
        case EvaluationFinished():
            return f"judged: {body.outcome.__struct_config__.tag}"
        case AttemptAbandoned():
            return "abandoned"
        case RunPaused():
            return "paused"
    return ""
