"""Which role sees what of an attempt, in a run; and that replays render it again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agents.clients.port import Request
from agents.templates import load
from engine.cli.settings.layers import resolve
from engine.config import Config
from engine.core.state import State
from engine.loop.methods import observed_for, team_of
from engine.loop.run import RunLoop
from engine.loop.start import run_started
from engine.loop.texts import Texts
from events.bodies import EvaluationFinished
from events.observations import Observations, Profile, ProfileRow, Work
from events.outcomes import Correct
from events.writer import LogWriter
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from tests.engine.outside import TASK, ScriptedClient, ScriptedEvaluator
from tests.replayed import Replayed, replayed

pytestmark = pytest.mark.anyio

SEEN = Observations(
    work=Work(
        input_bytes=4000, output_bytes=4000, parameter_bytes=0, flops=0, dtype="float32",
        uncounted=["add"],
    ),
    profile=Profile(
        what="operators", calls=2, wall_ns=90, own_ns=80,
        rows=[ProfileRow(name="aten::add", count=2, own_ns=80)],
    ),
    missing={"counters": "no ncu"},
)  # fmt: skip
PEAKS = {"peak_bytes": 150 << 20, "reference_peak_bytes": 64 << 20}
MEMORY = "peak memory 150 MB, reference 64 MB"
ROOFLINE, PROFILE = "**Achieved rates and the device's ceilings**", "**Where the time goes**"


class Observing(ScriptedEvaluator):
    """Sees the same of each candidate, if it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[tuple[str, ...]] = set()

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        self.asked.add(request.observe)
        verdict = await super().evaluate(request)
        outcome = verdict.outcome
        if isinstance(outcome, Correct):
            outcome = msgspec.structs.replace(outcome, **PEAKS)
        observations = SEEN if request.observe else None
        return msgspec.structs.replace(verdict, outcome=outcome, observations=observations)


def config(*assignments: str, preset: str | None = None) -> Config:
    few = ["model=fake:m", "budget.attempts=6", "prompts.language=cpp"]
    return resolve(
        preset=preset, file=None, environment={}, assignments=[*few, *assignments], flags={}
    )


async def search(path: Path, config: Config) -> tuple[dict[str, list[str]], Observing, Replayed]:
    """What each role was told of attempts; who was asked to look; the replayed log."""
    client, evaluator = ScriptedClient(), Observing()
    async with LogWriter(path) as log:
        texts = Texts(lambda sha256: "")
        loop = RunLoop(
            log=log, run_id=log.create_run("feed"), uid="feed", state=State(team_of), texts=texts,
            templates=load(), clients={"fake:m": client}, evaluator=evaluator,
        )  # fmt: skip
        first, blobs = run_started(
            config=config, task_name="double.py", task_source=TASK, device={}, canned=False,
            texts=texts,
        )  # fmt: skip
        await loop.run(first, blobs)
    told: dict[str, list[str]] = {}
    for request in client.sent:
        told.setdefault(request.role, []).append(_attempts(request))
    return told, evaluator, replayed(path)


def _attempts(request: Request) -> str:
    names = ("selected", "attempt")
    return "\n".join(part.text for part in request.parts if part.name.startswith(names))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_each_role_sees_its_own_sections(tmp_path: Path) -> None:
    repairing = config("search.seed=4")
    told, evaluator, replay = await search(tmp_path / "log.db", repairing)
    assert evaluator.asked == {("roofline", "profile")}
    assert any(ROOFLINE in text and PROFILE in text for text in told["plan"])
    assert not any(ROOFLINE in text or PROFILE in text for text in told["code"] + told["debug"])
    assert any("**Timing**" in text for text in told["code"])
    assert all(any(MEMORY in text for text in told[role]) for role in ("plan", "code"))
    assert any("**Compiler observation**" in text for text in told["debug"])
    assert not any("no ncu" in text for texts in told.values() for text in texts)
    verdicts = [e.body for e in replay.events if isinstance(e.body, EvaluationFinished)]
    assert [body.observations for body in verdicts] == [SEEN] * len(verdicts)
    assert replay.prompts.rendered > 0
    assert replay.prompts.different == []


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_the_paper_has_compiler_and_execution_only(tmp_path: Path) -> None:
    paper = config("sandbox.device=cpu", "model=fake:m", preset="paper")
    told, evaluator, _ = await search(tmp_path / "log.db", paper)
    assert evaluator.asked == {()}
    everything = "\n".join(text for texts in told.values() for text in texts)
    assert "memory" not in everything
    heads = {line for line in everything.splitlines() if line.startswith("**")}
    assert {head for head in heads if "Attempt" not in head} == {
        "**Instruction**",
        "**Compiler observation**",
        "**Kernel execution result**",
    }


def test_what_nobody_sees_is_not_measured() -> None:
    assert observed_for(config()) == ("roofline", "profile")
    plain = "roles.plan.observations=compiler,counters"
    assert observed_for(config(plain)) == ("counters",)
    assert observed_for(config(plain, "search.method=reflexion")) == ("roofline", "profile")
