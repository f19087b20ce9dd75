"""The judge of requests: the paper's definitions, and nothing of ours but the log.

Written from sections 4.2 to 4.4, appendix B and figure 4.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from events.bodies import AgentCalled, Body, EvaluationFinished, NodeSelected, ReplyParsed
from events.outcomes import Correct
from events.reader import LogReader
from tests.agents.dialects import Wire
from tests.engine.model_runs import ANNOTATED, role_of
from tests.engine.outside import TASK

__all__ = ["Judge"]

TEMPERATURES = {"plan": 0.8, "code": 0.1, "debug": 0.1, "single": 0.7}
LEADERS, CAP = 2, 5
BEGIN, END = "<<<IMPROVE BEGIN>>>", "<<<IMPROVE END>>>"


class Attempt(msgspec.Struct, kw_only=True):
    parent: int
    source: str = ""
    annotated: str = ""
    outcome: str = ""
    runtime_ms: float | None = None


class Judge:
    """The attempts so far, as the paper's formulas need them. The root is 0.

    ``literal``: of a window with more than five nodes, five are sampled, whichever they are;
    otherwise the selected node and the root stay.
    """

    def __init__(self, reader: LogReader, *, literal: bool = False) -> None:
        self._text = reader.text
        self._literal = literal
        self.attempts: dict[int, Attempt] = {}
        self.newest = 0
        self.seen: Counter[str] = Counter()
        self.capped = 0
        self.crowded = 0
        """Capped windows that show more attempts than with the selected node and the root."""
        self.duplicates = 0
        """Windows whose leaders are others than the fastest ones, duplicates counted."""

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
        """Top-r(C), distinct and outside of i's subtree."""
        correct = [(a.runtime_ms, j) for j, a in self.attempts.items() if a.runtime_ms]
        fastest = [j for _, j in sorted(correct) if not self._below(j, i)]
        distinct: dict[str, int] = {self._plain(i): i} if i else {}
        for j in fastest:
            distinct.setdefault(self._plain(j), j)
        found = [j for j in distinct.values() if j != i][:LEADERS]
        self.duplicates += found != fastest[:LEADERS]
        return found

    def _plain(self, j: int) -> str:
        """The source without its comments, the only thing by which duplicates differ here."""
        return re.sub(r"(?m)^#.*\n", "", self.attempts[j].source)

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
            case "debug":
                rest = self.siblings(i)
            case _:
                rest = []
        return list(dict.fromkeys(rest))

    def check(self, called: AgentCalled, wire: Wire) -> None:
        attempt, role = self.attempts[self.newest], called.role
        i = attempt.parent
        selected = self.attempts.get(i)
        assert role_of(wire.user) == role
        self.seen[role] += 1
        assert wire.temperature == TEMPERATURES[role]
        assert (wire.model, wire.tool) == ("test-model", "code" if role == "single" else role)
        if role != "single":
            assert (role == "debug") == bool(selected and not selected.runtime_ms), "HasBug"

        shown = [
            int(n) for n in re.findall(r"\*\*Attempt (\d+): kernel source code\*\*", wire.user)
        ]
        rooted = self._in_its_window(role, i, shown, called.window)
        if i:
            assert ("The reference is the given architecture" in wire.user) == rooted

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
        assert (BEGIN in prompt) == (role in ("code", "debug"))
        assert ("**Compiler observation**" in prompt) == bool(i or shown)

    def _in_its_window(self, role: str, i: int, shown: list[int], sampled: list[int]) -> bool:
        """Whether the root is in the window, of which ``shown`` are the attempts but i."""
        window, always = self.window(role, i), 2 if i else 1
        if len(window) + always <= CAP:
            assert shown == window
            return True
        self.capped += 1
        assert [j for j in window if j in shown] == shown, "in the window's order, each once"
        assert [j for j in sampled if j not in (0, i)] == shown
        if not self._literal:
            assert len(shown) == CAP - always
            return True
        assert len(sampled) == CAP
        self.crowded += len(shown) > CAP - always
        return 0 in sampled

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
