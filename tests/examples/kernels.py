"""The examples' kernels with what each of them has to come to, and their real evaluation."""

from __future__ import annotations

import tomllib
from pathlib import Path

import anyio
import msgspec

from agents.languages import LANGUAGES
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.sandbox import LocalSandbox

REPOSITORY = Path(__file__).parents[2]
PLAYBOOKS = REPOSITORY / "examples" / "playbooks"
IN_CONTEXT = REPOSITORY / "agents" / "languages" / "examples"


class Expected(msgspec.Struct, frozen=True):
    """A kernel file and its outcome."""

    kernel: Path
    task: Path
    language: str
    outcome: str


def expectations() -> list[Expected]:
    """Every playbook kernel, and the in-context examples."""
    entries = tomllib.loads((PLAYBOOKS / "expectations.toml").read_text())
    found = [
        Expected(
            PLAYBOOKS / name, (PLAYBOOKS / entry["task"]).resolve(), entry["language"],
            entry["outcome"],
        )
        for name, entry in entries.items()
    ]  # fmt: skip
    for language in LANGUAGES:
        folder = IN_CONTEXT / language
        found.append(Expected(folder / "solution.py", folder / "task.py", language, "correct"))
    return found


async def outcomes(
    sandbox: LocalSandbox, chosen: list[Expected], device: str
) -> dict[str, tuple[str, str]]:
    """Kernel → (expected, found), all evaluated side by side."""
    found: dict[str, tuple[str, str]] = {}

    async def one(expected: Expected) -> None:
        verdict = await sandbox.evaluate(
            EvaluationRequest(
                task_name=expected.task.name,
                task_source=expected.task.read_text(),
                candidate_source=expected.kernel.read_text(),
                device=device,
                protocol="strict",
                seed=1,
            )
        )
        name = f"{expected.kernel.parent.name}/{expected.kernel.name}"
        found[name] = (expected.outcome, _describe(verdict))

    async with anyio.create_task_group() as tasks:
        for expected in chosen:
            tasks.start_soon(one, expected)
    return found


def _describe(verdict: Verdict) -> str:
    return str(verdict.outcome.__struct_config__.tag)
