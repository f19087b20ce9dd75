"""What ``engine doctor`` looks at: this installation, then the sandbox's own checks."""

from __future__ import annotations

import os
import sqlite3
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import anyio

from engine.cli.exits import Failure
from engine.cli.settings.layers import SettingsError, resolve
from engine.cli.views.waiting import Waiting, waiting_for
from engine.loop.start import engine_version
from gpu_sandbox.api.check import Check
from gpu_sandbox.backends.known import BACKENDS
from gpu_sandbox.doctor.checks import examine as examine_sandbox

__all__ = ["examine"]

_PACKAGES = ("engine", "events", "projections", "agents", "gpu_sandbox", "replay")


def examine(device: str) -> list[Check]:
    """All checks. ``auto`` tries a device of each kind that seems to be present. A terminal
    shows what is looked at."""
    if device == "auto":
        devices = [backend.first for backend in BACKENDS if backend.is_present()]
    else:
        devices = [device]
    try:
        config = resolve(
            preset=None, file=None, environment=os.environ, assignments=[], flags={}
        )  # fmt: skip
    except SettingsError as error:
        raise Failure(str(error)) from error
    cache_bytes = round(config.sandbox.cache_gb * 2**30)
    checks = [_installation(), _sqlite(), *(_key(client) for client in _KEYS)]
    waiting = waiting_for(_step_names(devices))
    steps = _Steps(waiting)
    with waiting.shown():
        return checks + anyio.run(
            partial(examine_sandbox, devices, cache_bytes=cache_bytes, steps=steps.begin)
        )


def _step_names(devices: list[str]) -> list[str]:
    return ["the machine", *devices, "isolation"]


class _Steps:
    """One after the other."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._number = -1

    def begin(self, what: str) -> None:
        if self._number >= 0:
            self._waiting.done(self._number)
        self._number += 1
        self._waiting.stage(self._number, f"looking at {what}")


def _installation() -> Check:
    """Our package names are common words: another project's ``agents`` may shadow ours."""
    here = Path(__file__).parents[2]
    strangers = [
        f"{name} is {file}"
        for name in _PACKAGES
        if (file := import_module(name).__file__ or "") and not Path(file).is_relative_to(here)
    ]
    return Check(
        name="engine",
        ok=not strangers,
        needed=True,
        detail="; ".join(strangers)
        or f"{engine_version()} in {here}, Python {sys.version.split()[0]}",
        fix="install engine in a virtual environment of its own (pipx, uv tool, venv)"
        if strangers
        else "",
    )


def _sqlite() -> Check:
    version = sqlite3.sqlite_version
    note = ""
    if sqlite3.sqlite_version_info < (3, 51, 3):
        # Needs two writing connections on one file; the log never has a second one.
        note = ", which has the WAL-reset bug; engine's single writer does not meet it"
    return Check(
        name="sqlite",
        ok=sqlite3.sqlite_version_info >= (3, 37),
        needed=True,
        detail=version + note,
        fix="" if sqlite3.sqlite_version_info >= (3, 37) else "a Python built with SQLite ≥ 3.37",
    )


_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "playbooks need none"),
    "openai": ("OPENAI_API_KEY", "a server of your own may want none"),
}


def _key(client: str) -> Check:
    name, otherwise = _KEYS[client]
    found = bool(os.environ.get(name))
    return Check(
        name=f"{client} key",
        ok=found,
        needed=False,
        detail=f"{name} is set" if found else f"{name} is not set",
        fix="" if found else f"set it for --model {client}:…; {otherwise}",
    )
