"""Run as a script: replay logs with the world taken away, and print what came out as JSON.

Clocks, chance, sockets, processes and threads raise; torch, anthropic and httpx can't be
imported. Each log is replayed by the command line, and within asyncio's and trio's loop.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import secrets
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import ModuleType
from typing import Any, NoReturn
from unittest.mock import patch

import anyio
import click

from engine.cli.main import cli

FORBIDDEN_MODULES = ("torch", "anthropic", "httpx")
FORBIDDEN_EVENTS = ("socket.", "subprocess.", "os.fork", "os.exec", "os.posix_spawn")


class AskedTheWorld(BaseException):
    """Not an Exception, so that nobody handles it."""


def refuse(*_: object, **__: object) -> NoReturn:
    raise AskedTheWorld


class Refuser:
    """An import hook."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in FORBIDDEN_MODULES:
            raise AskedTheWorld(name)


refusing: list[bool] = []
"""Not empty while the world is away; an audit hook can't be taken back."""


def audit(event: str, args: tuple[Any, ...]) -> None:
    if refusing and event.startswith(FORBIDDEN_EVENTS):
        raise AskedTheWorld(f"{event} {args}")


def functions(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if name[0] != "_" and callable(getattr(module, name))]


@contextmanager
def without_the_world() -> Iterator[None]:
    patches = [
        patch.object(module, name, refuse)
        for module in (time, random, uuid, secrets)
        for name in functions(module)
        # Types are asked for by isinstance; making one is what must not happen.
        if not (isinstance(getattr(module, name), type) and name in ("struct_time", "UUID"))
    ]
    patches += [patch.object(socket.socket, "__init__", refuse), patch("os.urandom", refuse)]
    patches += [patch.object(threading.Thread, "start", refuse)]
    for each in patches:
        each.start()
    refusing.append(True)
    try:
        yield
    finally:
        refusing.clear()
        for each in patches:
            each.stop()


def prove() -> None:
    """The world is away indeed."""
    questions: list[tuple[Any, str, list[Any]]] = [
        (time, "time", []), (time, "monotonic", []), (random, "random", []),
        (random, "Random", []), (uuid, "uuid4", []), (secrets, "token_hex", []),
        (socket, "socket", []), (socket, "getaddrinfo", ["localhost", 80]), (os, "fork", []),
        (threading.Thread(), "start", []), (importlib, "import_module", ["torch"]),
    ]  # fmt: skip
    for asked, name, args in questions:
        try:
            with without_the_world():
                getattr(asked, name)(*args)
        except AskedTheWorld:
            continue
        raise AssertionError(f"{name} answered")


def replayed(log: str) -> dict[str, Any]:
    printed = io.StringIO()
    # An exit is with 5, for a difference.
    with without_the_world(), redirect_stdout(printed), suppress(click.exceptions.Exit):
        cli.main(["replay", log, "--verify", "--json"], standalone_mode=False)
    return dict(json.loads(printed.getvalue()))


async def replayed_within(log: str) -> dict[str, Any]:
    return replayed(log)


def main(logs: list[str]) -> None:
    for log in logs:
        outcomes = [replayed(log)]
        outcomes += [
            anyio.run(replayed_within, log, backend=backend) for backend in ("asyncio", "trio")
        ]
        print(json.dumps(outcomes))
    loaded = sorted(set(FORBIDDEN_MODULES) & set(sys.modules))
    assert not loaded, loaded


if __name__ == "__main__":
    # Importing may ask for the time; from here on the import hook says no.
    for needed in (
        "engine.cli.analyse.replay",
        "replay.explain",
        "replay.prompts",
        "trio",
        "asyncio",
    ):
        importlib.import_module(needed)
    sys.meta_path.insert(0, Refuser())  # type: ignore[arg-type]
    sys.addaudithook(audit)
    prove()
    main(sys.argv[1:])
