"""``engine eval``: verdicts without a search."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click

from engine.cli.evaluate.verdict_rows import (
    Row,
    print_unjudged,
    print_verdict,
    ranked_lines,
    row_of,
)
from engine.cli.exits import Exit, Failure
from engine.cli.run.isolation import isolation_options, refuse_option
from engine.cli.settings.layers import SettingsError, resolve
from engine.cli.source_files import read_candidate, read_task
from engine.cli.views.waiting import Waiting, waiting_for
from engine.config import Config
from gpu_sandbox.api.evaluator import (
    BaselineRequest,
    EvaluationRequest,
    Evaluator,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
)
from gpu_sandbox.api.progress import told_to

__all__ = ["InOrder", "eval_"]


@click.command(name="eval")
@click.argument("task", type=click.Path(path_type=Path))
@click.argument("candidates", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--device", help="cpu, cuda:N, cuda:0,cuda:1 or auto.")
@click.option("--protocol",
              help="strict, strict-tf32, strict-bf16, verified, kernelbench or paper.")  # fmt: skip
@click.option("--sanitize", is_flag=True, default=None,
              help="Run what is faster than the reference in a sanitizer as well.")  # fmt: skip
@click.option("--autopsy", is_flag=True,
              help="Run what is wrong in a sanitizer as well, not only what crashed.")  # fmt: skip
@refuse_option
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE",
              help="Any configuration key, such as sandbox.run_timeout_s=30.")  # fmt: skip
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio",
              envvar="ENGINE_BACKEND", help="Which event loop to run on.")  # fmt: skip
@isolation_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a candidate.")
def eval_(
    task: Path, candidates: tuple[Path, ...], device: str | None, protocol: str | None,
    sanitize: bool | None, autopsy: bool, refuse: str | None, assignments: tuple[str, ...],
    backend: str, as_json: bool,
    require_isolation: str | None,
) -> int:  # fmt: skip
    """Judge each of CANDIDATES against the reference in TASK.

    A candidate's file defines ModelNew. Exit code 4 when none of them is correct, 3 when one
    could not be judged for want of something on this machine.
    """
    try:
        config = resolve(
            preset=None, file=None, environment=os.environ, assignments=list(assignments),
            flags={
                "sandbox.device": device, "sandbox.protocol": protocol,
                "sandbox.sanitize": sanitize, "sandbox.refuse": refuse,
                "sandbox.require_isolation": require_isolation,
            },
        )  # fmt: skip
    except SettingsError as error:
        raise Failure(str(error)) from error
    if autopsy and not config.sandbox.autopsy_timeout_s:
        raise Failure("--autopsy needs time: set sandbox.autopsy_timeout_s above 0")
    source = read_task(task)
    sources = {path: read_candidate(path) for path in candidates}

    async def work() -> list[Row]:
        return await _evaluate(config, task, source, sources, autopsy, as_json)

    rows = anyio.run(work, backend=backend)
    return Exit.DONE if any(row.outcome == "correct" for row in rows) else Exit.NOT_FASTER


async def _evaluate(
    config: Config, task: Path, task_source: str, sources: dict[Path, str],
    autopsy: bool, as_json: bool,
) -> list[Row]:  # fmt: skip
    from engine.cli.run.machine import open_sandbox, resolve_device
    from engine.loop.methods import observed_for

    judged: dict[int, Row] = {}
    waiting = waiting_for([path.name for path in sources])
    shown = InOrder(waiting)
    missing: list[PrerequisiteMissing] = []
    async with AsyncExitStack() as stack:
        sandbox = await open_sandbox(stack, config)
        config, _ = await resolve_device(sandbox, config)

        async def one(number: int, path: Path, source: str) -> None:
            request = EvaluationRequest(
                task_name=task.name, task_source=task_source, candidate_source=source,
                device=config.sandbox.device, protocol=config.sandbox.protocol, seed=0,
                observe=observed_for(config), refuse=tuple(config.sandbox.refuse),
                autopsy_of_wrong=autopsy, autopsy_yields=True,
            )  # fmt: skip
            waiting.stage(number, "being judged")
            try:
                with told_to(partial(waiting.stage, number)):
                    verdict = await sandbox.evaluate(request)
            except PrerequisiteMissing as error:  # for this one: others may need less
                missing.append(error)
                shown.add(number, partial(print_unjudged, path, config, str(error), as_json))
            else:
                row = row_of(path, verdict)
                judged[number] = row
                shown.add(number, partial(print_verdict, row, verdict, as_json))
            waiting.done(number)

        failure: Exception | None = None
        try:
            # Compiles overlap; the sandbox itself takes turns at the device.
            with waiting.shown():
                async with anyio.create_task_group() as tasks:
                    for number, (path, source) in enumerate(sources.items()):
                        tasks.start_soon(one, number, path, source)
        except* (TaskUnusable, SandboxFault) as group:
            failure = group.exceptions[0]
            while isinstance(failure, ExceptionGroup):
                failure = failure.exceptions[0]
        shown.rest()
        if isinstance(failure, SandboxFault):
            failure = await _task_failure(sandbox, config, task, task_source) or failure
        _raise(failure or next(iter(missing), None), task)
    rows = [judged[number] for number in sorted(judged)]
    if len(rows) > 1 and not as_json:
        click.echo("")
        for line in ranked_lines(rows):
            click.echo(line)
    return rows


async def _task_failure(
    sandbox: Evaluator, config: Config, task: Path, task_source: str
) -> Exception | None:
    """What is wrong with the task: mostly that is the cause of a fault, and its baseline shows
    it. None if nothing is."""
    request = BaselineRequest(
        task_name=task.name,
        task_source=task_source,
        seed=0,
        device=config.sandbox.device,
        protocol=config.sandbox.protocol,
    )
    try:
        await sandbox.baseline(request)
    except (PrerequisiteMissing, TaskUnusable, SandboxFault) as error:
        return error
    return None


class InOrder:
    """Prints results in the order given, each as soon as all before it are there."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._held: dict[int, Callable[[], None]] = {}
        self._next = 0

    def add(self, number: int, show: Callable[[], None]) -> None:
        """What shows the ``number``-th result."""
        self._held[number] = show
        if self._next in self._held:
            with self._waiting.hidden():
                while (ready := self._held.pop(self._next, None)) is not None:
                    self._next += 1
                    ready()

    def rest(self) -> None:
        """Where one has failed, those behind it."""
        for number in sorted(self._held):
            self._held.pop(number)()


def _raise(failure: Any, task: Path) -> None:
    match failure:
        case PrerequisiteMissing():
            raise Failure(str(failure), Exit.MISSING)
        case TaskUnusable():
            detail = f"\n{failure.detail}" if failure.detail else ""
            raise Failure(f"{task}: {failure.reason}{detail}")
        case SandboxFault():
            raise Failure(f"the sandbox failed: {failure}", Exit.INTERNAL)
