"""This machine's sandbox as a run is to have it, and what a run needs of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any

import click
import msgspec

from engine.cli.exits import Exit, Failure
from engine.config import Config
from gpu_sandbox.api.evaluator import Evaluator, PrerequisiteMissing, SandboxFault
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.known import BACKENDS, backend_named
from gpu_sandbox.languages import languages_on
from gpu_sandbox.sandbox import LocalSandbox

__all__ = ["check_language", "open_sandbox", "prerequisites", "resolve_device"]


@contextmanager
def prerequisites() -> Iterator[None]:
    """What would fail at the first evaluation is better said before anything is paid."""
    try:
        yield
    except PrerequisiteMissing as missing:
        raise Failure(str(missing), Exit.MISSING) from missing
    except SandboxFault as fault:
        raise Failure(f"the sandbox failed: {fault}\nSee: engine doctor", Exit.INTERNAL) from fault


def check_language(config: Config) -> None:
    language, device = config.prompts.language, config.sandbox.device
    if "auto" in (language, device):
        return
    with prerequisites():
        backend = backend_named(device)
    names = [known.name for known in languages_on(backend.kind)]
    if language not in names:
        raise Failure(
            f"prompts.language is {language}, and no such kernel runs on the"
            f" {backend.kind.upper()}: give --language {names[0]}, or another device"
            " with --device"
        )


async def open_sandbox(stack: AsyncExitStack, config: Config) -> LocalSandbox:
    """This machine's sandbox with the configured limits."""
    name = config.sandbox.device
    sandbox = LocalSandbox(
        devices=tuple(b.first for b in reversed(BACKENDS)) if name == "auto" else (name,),
        limits=Limits(
            compile_s=config.sandbox.compile_timeout_s,
            call_s=config.sandbox.run_timeout_s,
            bench_s=config.sandbox.bench_s,
            autopsy_s=config.sandbox.autopsy_timeout_s,
            sanitize=config.sandbox.sanitize,
            observe_share=config.sandbox.observe_share,
            counters_s=config.sandbox.counters_timeout_s,
            memory_bytes=config.sandbox.memory_gb << 30,
            threads=config.sandbox.threads,
        ),
        cache_bytes=round(config.sandbox.cache_gb * 2**30),
        compile_jobs=config.sandbox.compile_jobs,
        require_isolation=config.sandbox.require_isolation,
    )
    with prerequisites():
        return await stack.enter_async_context(sandbox)


async def resolve_device(sandbox: Evaluator, config: Config) -> tuple[Config, dict[str, Any]]:
    """Fill in what ``auto`` means here, and the language that goes with the device."""
    name = config.sandbox.device
    with prerequisites():
        if name == "auto":
            name, facts = await _present(sandbox)
        else:
            facts = await sandbox.fingerprint(name)
    language = config.prompts.language
    if language == "auto":
        language = languages_on(backend_named(name).kind)[0].name
    return msgspec.structs.replace(
        config,
        sandbox=msgspec.structs.replace(config.sandbox, device=name),
        prompts=msgspec.structs.replace(config.prompts, language=language),
    ), facts


async def _present(sandbox: Evaluator) -> tuple[str, dict[str, Any]]:
    """What ``auto`` means here, and its facts."""
    host, *others = BACKENDS
    for backend in reversed(others):
        with suppress(PrerequisiteMissing):
            return backend.first, await sandbox.fingerprint(backend.first)
    kinds = " or ".join(backend.kind.upper() for backend in others)
    facts = await sandbox.fingerprint(host.first)
    click.echo(f"no {kinds} device found: using --device {host.first}", err=True)
    return host.first, facts
