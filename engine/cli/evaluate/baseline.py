"""``engine baseline``: what a task's reference does, eager and compiled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click
import msgspec

from engine.cli.exits import Exit, Failure
from engine.cli.inspect.inspect import emit
from engine.cli.run.isolation import isolation_options
from engine.cli.settings.layers import SettingsError, resolve
from engine.cli.source_files import read_task
from engine.cli.views.draw import kept_words, ms, printable
from engine.cli.views.waiting import Waiting, waiting_for
from engine.config import Config
from events.outcomes import BaselineKind
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
)
from gpu_sandbox.api.progress import told_to
from gpu_sandbox.evaluate.baselines import KINDS
from projections.candidate.labels import labels_of, labels_words

__all__ = ["baseline", "kinds_of"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What ``engine baseline --json`` prints for each baseline."""

    baseline: str
    runtime_ms: float | None
    speedup: float | None
    outcome: str
    reason: str
    device: str
    protocol: str
    conditions: dict[str, Any]
    notes: list[str]
    cached: bool
    measured_at: str
    labels: list[str]


@click.command()
@click.argument("task", type=click.Path(path_type=Path))
@click.option("--kinds", default=",".join(KINDS), show_default=True,
              help="Which baselines, with commas between.")  # fmt: skip
@click.option("--device", help="cpu, cuda:N, cuda:0,cuda:1 or auto.")
@click.option("--protocol",
              help="strict, strict-tf32, strict-bf16, verified, kernelbench or paper.")  # fmt: skip
@click.option("--again", "--fresh", "again", is_flag=True,
              help="Drop what is kept for this task, device, protocol; measure.")  # fmt: skip
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio",
              envvar="ENGINE_BACKEND", help="Which event loop to run on.")  # fmt: skip
@isolation_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a baseline.")
def baseline(
    task: Path, kinds: str, device: str | None, protocol: str | None, again: bool,
    backend: str, as_json: bool, require_isolation: str | None,
) -> int:  # fmt: skip
    """Time the reference in TASK: eager, torch.compile, torch.compile with max-autotune.

    Compiled baselines are checked against eager and timed in pairs with it, like
    candidates. What was measured is kept for this task, device and versions, unless
    the machine was busy.
    """
    try:
        config = resolve(
            preset=None, file=None, environment=os.environ, assignments=[],
            flags={
                "sandbox.device": device, "sandbox.protocol": protocol,
                "sandbox.require_isolation": require_isolation,
            },
        )  # fmt: skip
    except SettingsError as error:
        raise Failure(str(error)) from error
    source, chosen = read_task(task), kinds_of(kinds)

    async def work() -> None:
        await _measure(config, task, source, chosen, again, as_json)

    anyio.run(work, backend=backend)
    return Exit.DONE


def kinds_of(listed: str) -> tuple[BaselineKind, ...]:
    """The baselines of a list with commas, each once. Raises ``Failure``."""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    unknown = [name for name in names if name not in KINDS]
    if unknown or not names:
        told = ", ".join(unknown) or "none"
        raise Failure(f"no baseline named {told}; there are {', '.join(KINDS)}")
    return tuple(kind for name in dict.fromkeys(names) for kind in KINDS if kind == name)


async def _measure(
    config: Config, task: Path, source: str, kinds: tuple[BaselineKind, ...], again: bool,
    as_json: bool,
) -> None:  # fmt: skip
    from engine.cli.run.machine import open_sandbox, resolve_device

    async with AsyncExitStack() as stack:
        sandbox = await open_sandbox(stack, config)
        config, _ = await resolve_device(sandbox, config)
        device, protocol = config.sandbox.device, config.sandbox.protocol
        waiting = stack.enter_context(_waiting(kinds))
        try:
            request = BaselineRequest(
                task_name=task.name, task_source=source, device=device, protocol=protocol,
                seed=0, reuse=True,
            )  # fmt: skip
            if again:
                dropped = await sandbox.forget_baselines(request)
                with waiting.hidden():
                    _say_dropped(dropped)
            for number, kind in enumerate(kinds):
                waiting.stage(number, "being measured")
                with told_to(partial(waiting.stage, number)):
                    found = await sandbox.baseline(msgspec.structs.replace(request, kind=kind))
                waiting.done(number)
                with waiting.hidden():
                    _print(_row(found, device, protocol), as_json)
        except PrerequisiteMissing as missing:
            raise Failure(str(missing), Exit.MISSING) from missing
        except TaskUnusable as unusable:
            detail = f"\n{unusable.detail}" if unusable.detail else ""
            raise Failure(f"{task}: {unusable.reason}{detail}") from unusable
        except SandboxFault as fault:
            raise Failure(f"the sandbox failed: {fault}", Exit.INTERNAL) from fault


@contextmanager
def _waiting(kinds: tuple[BaselineKind, ...]) -> Iterator[Waiting]:
    waiting = waiting_for(kinds)
    with waiting.shown():
        yield waiting


def _say_dropped(count: int) -> None:
    baselines = "baseline" if count == 1 else "baselines"
    click.echo(f"dropped {count or 'no'} kept {baselines}", err=True)


def _row(found: Baseline, device: str, protocol: str) -> Row:
    outcome = found.outcome
    return Row(
        baseline=found.kind,
        runtime_ms=found.runtime_ms,
        speedup=1.0 if outcome is None else getattr(outcome, "speedup", None),
        outcome="correct" if outcome is None else str(outcome.__struct_config__.tag),
        reason="" if outcome is None else outcome.reason,
        device=device,
        protocol=protocol,
        conditions=found.conditions,
        notes=[*found.audit, *found.notes],
        cached=found.cached,
        measured_at=found.measured_at,
        labels=[*labels_of(outcome, found.notes), *found.labels],
    )


def _print(row: Row, as_json: bool) -> None:
    if as_json:
        emit(row)
        return
    line = f"{row.baseline:<13}"
    if row.runtime_ms is not None and row.speedup is not None:
        line += f"{ms(row.runtime_ms):>11}  {row.speedup:5.2f}× eager{labels_words(row.labels)}"
    else:
        line += f"{row.outcome.replace('_', ' ')}: {printable(row.reason)}"
    line += labels_words(row.labels)
    click.echo(line + (kept_words(row.measured_at) if row.cached else ""))
    for note in row.notes:
        click.echo(f"  note: {printable(note)}", err=True)
