"""This machine's sandbox as a run is to have it, and what a run needs of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import click
import msgspec

from agents.languages import LANGUAGES
from engine.cli.exits import Exit, Failure
from engine.config import Config
from gpu_sandbox.api.evaluator import Evaluator, PrerequisiteMissing, SandboxFault
from gpu_sandbox.api.limits import Limits
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
    language = config.prompts.language
    on_cpu = [name for name, known in LANGUAGES.items() if known.words.hardware == "CPU"]
    if config.sandbox.device == "cpu" and language not in ("auto", *on_cpu):
        raise Failure(
            f"prompts.language is {language}, and no such kernel runs on the CPU: give"
            f" --language {' or '.join(on_cpu)}, or another device with --device"
        )


async def open_sandbox(stack: AsyncExitStack, config: Config) -> LocalSandbox:
    """This machine's sandbox with the configured limits."""
    name = config.sandbox.device
    sandbox = LocalSandbox(
        devices=("cuda:0", "cpu") if name == "auto" else (name,),
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
            try:
                name, facts = "cuda:0", await sandbox.fingerprint("cuda:0")
            except PrerequisiteMissing:
                name, facts = "cpu", await sandbox.fingerprint("cpu")
                click.echo("no CUDA device found: using --device cpu", err=True)
        else:
            facts = await sandbox.fingerprint(name)
    language = config.prompts.language
    if language == "auto":
        language = "cpp" if name == "cpu" else "cuda"
    return msgspec.structs.replace(
        config,
        sandbox=msgspec.structs.replace(config.sandbox, device=name),
        prompts=msgspec.structs.replace(config.prompts, language=language),
    ), facts
