"""What really goes to the model, against the paper's definitions: temperatures, windows, anchors.

The judge is written from sections 4.2 to 4.4, appendix B and figure 4, and from nothing of
ours but the log; what it judges are the requests as the server got them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from agents.templates import load
from engine.config import Prompts
from events.bodies import AgentCalled, Body, EvaluationFinished, NodeSelected, ReplyParsed
from events.outcomes import Correct
from events.reader import LogReader
from tests.agents.dialects import DIALECTS, Dialect, Wire
from tests.agents.model_server import running
from tests.engine.model_runs import ANNOTATED, Team, config, role_of, search
from tests.engine.outside import TASK

pytestmark = pytest.mark.anyio

TEMPERATURES = {"plan": 0.8, "code": 0.1, "debug": 0.1}
LEADERS, CAP = 2, 5
BEGIN, END = "<<<IMPROVE BEGIN>>>", "<<<IMPROVE END>>>"


@pytest.fixture(params=DIALECTS, ids=lambda api: str(api.name))
def api(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


@pytest.fixture
def anyio_backend(api: Dialect) -> str:
    """One a client, the other way round than in test_model_trouble."""
    return {"anthropic": "asyncio", "openai": "trio"}[api.name]


class Attempt(msgspec.Struct, kw_only=True):
    parent: int
    source: str = ""
    annotated: str = ""
    outcome: str = ""
    runtime_ms: float | None = None


class Judge:
    """The attempts so far, as the paper's formulas need them. The root is 0."""

    def __init__(self, reader: LogReader) -> None:
        self._text = reader.text
        self.attempts: dict[int, Attempt] = {}
        self.newest = 0
        self.seen = {"plan": 0, "code": 0, "debug": 0}
        self.capped = 0

    def happened(self, body: Body) -> None:
        match body:
            case NodeSelected():
                self.newest = body.attempt
                self.attempts[body.attempt] = Attempt(parent=body.node)
                if body.node and not self.attempts[body.node].runtime_ms:
                    self.attempts[body.attempt].annotated = self.attempts[body.node].annotated
            case ReplyParsed(role="plan"):
                self.attempts[body.attempt].annotated = self._text(body.annotated_sha256 or "")
            case ReplyParsed():
                self.attempts[body.attempt].source = self._text(body.source_sha256 or "")
            case EvaluationFinished():
                attempt = self.attempts[body.attempt]
                attempt.outcome = str(body.outcome.__struct_config__.tag)
                if isinstance(body.outcome, Correct):
                    attempt.runtime_ms = body.outcome.runtime_ms

    def children(self, i: int) -> list[int]:
        """D(i), evaluated ones."""
        return [j for j, a in self.attempts.items() if a.parent == i and a.outcome]

    def siblings(self, i: int) -> list[int]:
        """S(i)."""
        return [j for j in self.children(self.attempts[i].parent) if j != i] if i else []

    def leaders(self, i: int) -> list[int]:
        """Top-r(C) outside of i's subtree."""
        correct = [(a.runtime_ms, j) for j, a in self.attempts.items() if a.runtime_ms]
        return [j for _, j in sorted(correct) if not self._below(j, i)][:LEADERS]

    def _below(self, j: int, i: int) -> bool:
        return j == i or (j != 0 and self._below(self.attempts[j].parent, i))

    def window(self, role: str, i: int) -> list[int]:
        """W(i) without i and the root, in order."""
        match role:
            case "plan":
                rest = [*self.children(i), *self.leaders(i)]
            case "code":
                cousins = [k for j in self.siblings(i) for k in self.children(j)]
                rest = [*self.children(i), *cousins]
            case _:
                rest = self.siblings(i)
        return list(dict.fromkeys(rest))

    def check(self, called: AgentCalled, wire: Wire) -> None:
        attempt, role = self.attempts[self.newest], called.role
        i = attempt.parent
        selected = self.attempts.get(i)
        assert role_of(wire.user) == role
        self.seen[role] += 1
        assert wire.temperature == TEMPERATURES[role]
        assert (wire.model, wire.tool) == ("test-model", role)
        assert (role == "debug") == bool(selected and not selected.runtime_ms), "HasBug"

        shown = [
            int(n) for n in re.findall(r"\*\*Attempt (\d+): kernel source code\*\*", wire.user)
        ]
        window, room = self.window(role, i), CAP - (2 if i else 1)
        if len(window) <= room:
            assert shown == window
        else:
            self.capped += 1
            assert len(shown) == len(set(shown)) == room
            assert set(shown) < set(window)

        pieces = [_block(TASK), *self._selected(i, selected, role, attempt.annotated)]
        for j in shown:
            other = self.attempts[j]
            pieces += [f"**Attempt {j}: kernel source code**", _block(other.source)]
            pieces += ["**Compiler observation**", "**Kernel execution result**"]
            pieces.append("runtime " if other.runtime_ms else other.outcome)
        if role == "code":
            pieces += ["**Advice**", "Go faster."]
        elif role == "debug":
            pieces += ["Go faster.", _block(attempt.annotated)]
        in_order(wire.user, [*pieces, "## Instruction"])
        prompt = wire.user.split("## Instruction")[0]
        assert (BEGIN in prompt) == (role != "plan")

    def _selected(self, i: int, selected: Attempt | None, role: str, annotated: str) -> list[str]:
        """The selected node: its source; for the coder, with the plan's anchors in it."""
        if role == "code":
            assert annotated.count(BEGIN) == annotated.count(END) == 1
            assert i or annotated == ANNOTATED
        source = annotated if role == "code" else selected.source if selected else TASK
        if selected is None:
            return ["you start from the given architecture", _block(source)]
        result = "runtime " if selected.runtime_ms else selected.outcome
        return [f"Here is your latest attempt (attempt {i})", _block(source),
                "**Compiler observation**", "**Kernel execution result**", result]  # fmt: skip


def _block(source: str) -> str:
    text = source.strip("\n")
    return f"```python\n{text}\n```"


def in_order(text: str, pieces: Sequence[str]) -> None:
    """Each piece stands in the text, behind the one before it."""
    at = 0
    for piece in pieces:
        found = text.find(piece, at)
        assert found >= 0, f"not found in its place: {piece}"
        at = found + len(piece)


async def test_each_request_is_what_the_paper_defines(tmp_path: Path, api: Dialect) -> None:
    settings = msgspec.structs.replace(
        config(attempts=36, seed=2, epsilon=0.5), prompts=Prompts(system="main", language="cpp")
    )
    kinds = ("ok", "broken", "ok", "wrong", "ok", "ok", "broken")
    async with running(Team(api, kinds=kinds)) as team:
        client = api.client(team.url)
        ran = await search(tmp_path / "log.db", client, settings)
        await client.aclose()
    wires = [api.wire(got) for got in team.got]
    with LogReader(tmp_path / "log.db") as reader:
        judge = Judge(reader)
        for body in ran.bodies:
            if isinstance(body, AgentCalled):
                judge.check(body, wires.pop(0))
            else:
                judge.happened(body)
    assert not wires
    assert ran.state.attempts_ended == 36
    assert min(judge.seen.values()) >= 5, "each role has to have been asked a few times"
    assert judge.capped >= 3
    system = {api.wire(got).system for got in team.got}
    assert len(system) == 1
    assert system.pop().startswith(load().text("system_main.md").split("{")[0])
