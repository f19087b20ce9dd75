"""Tests of confinement: each in an interpreter of its own, which spawns jails as a zygote does.

One thread, and no children but jails. As root the tests cover namespaces without user
namespaces, and drop to an ordinary user for the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpu_sandbox.confine import Jail, Layer, Policy, Status, Survey, spawn, survey
from gpu_sandbox.confine.survey_cache import cached_survey
from tests.gpu_sandbox.users import UNABLE

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = UNABLE
WARNINGS = ("-W", "error", "-W", "ignore::DeprecationWarning")  # torch has its own
MIB = 1 << 20
NAMESPACES = tuple(name for name in Layer if name.startswith("namespaces:"))
ENVIRONMENT = {"PATH": os.environ["PATH"], "TOLD": "yes"}


def in_zygote(test: Callable[..., None]) -> Callable[..., None]:
    """Run the body in a fresh interpreter, with ``tmp_path`` if it takes it."""

    def outside(tmp_path: Path) -> None:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}
        done = subprocess.run(
            zygote_words(test),
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode == SKIPPED:
            pytest.skip(done.stdout.strip().splitlines()[-1])
        assert done.returncode == 0, done.stdout + done.stderr

    outside.__name__ = test.__name__
    outside.__doc__ = test.__doc__
    outside.__dict__["body"] = test
    return outside


def zygote_words(body: Callable[..., None]) -> list[str]:
    """The command that runs it alone (``__main__.py``)."""
    module = Path(inspect.getfile(body)).stem
    return [sys.executable, "-B", *WARNINGS, "-m", "tests.confine", module, body.__name__]


def skip(reason: str) -> None:
    print(reason, flush=True)
    os._exit(SKIPPED)


@functools.cache
def found() -> Survey:
    """What holds here: of this boot, where tests have a cache."""
    cache = os.environ.get("STARK_TEST_CACHE")
    return cached_survey(Path(cache) / "isolation") if cache else survey()


def need(*layers: str) -> Survey:
    for layer in layers:
        if layer not in found().layers:
            skip(f"{layer} is missing here: {found().missing.get(layer)}")
    return found()


def a_policy(home: str | None = None, **changes: Any) -> Policy:
    home = home or os.path.realpath(tempfile.mkdtemp())
    return msgspec.structs.replace(
        Policy(home=home, memory_bytes=1 << 30, file_bytes=256 * MIB, descriptors=256, cpu_s=100),
        **changes,
    )


class Running:
    def __init__(self, jail: Jail, output: int) -> None:
        self.jail = jail
        self.output = output

    def text(self, timeout_s: float = 30.0) -> str:
        """What it prints until the last holder of its output is gone."""
        data = b""
        while select.select([self.output], [], [], timeout_s)[0]:
            chunk = os.read(self.output, 1 << 16)
            if not chunk:
                break
            data += chunk
        else:
            raise AssertionError(f"output still open after {data!r}")
        return data.decode()


@contextlib.contextmanager
def running(
    main: Callable[[], None],
    policy: Policy | None = None,
    survey_: Survey | None = None,
    **options: Any,
) -> Iterator[Running]:
    read, write = os.pipe()
    try:
        jail = spawn(
            policy or a_policy(),
            survey_ or found(),
            main,
            output_fd=write,
            environment=options.pop("environment", ENVIRONMENT),
            **options,
        )
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    with jail:
        yield Running(jail, read)
    os.close(read)


def run(main: Callable[[], None], *arguments: Any, **options: Any) -> tuple[Status, str]:
    with running(main, *arguments, **options) as it:
        text = it.text(100.0)
        assert it.jail.ended(30.0)
        return it.jail.end(), text


def without(*layers: str) -> Survey:
    kept = tuple(layer for layer in found().layers if layer not in layers)
    return msgspec.structs.replace(found(), layers=kept)


def usable(kept: Survey) -> Survey:
    """Without a mount namespace, and Python under root's home, there's no other uid."""
    layers = list(kept.layers)
    if "namespaces:mount" not in layers:
        layers = [layer for layer in layers if layer not in ("uid", "namespaces:pid")]
    return msgspec.structs.replace(kept, layers=tuple(layers))


def group_directories(zygote: int | None = None) -> list[str]:
    """Of one zygote, by default this process: other engines of the machine have theirs."""
    return [
        str(path)
        for hierarchy in found().machine.hierarchies
        for path in Path(hierarchy.base).glob(f"gpu-sandbox-{zygote or os.getpid()}-*")
    ]


def eventually(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _segfault() -> None:
    ctypes.string_at(0)


def _raise() -> None:
    raise RuntimeError("as told")


def _leave(code: int | str) -> Callable[[], None]:
    return lambda: sys.exit(code)


def _die(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


ENDS: dict[str, tuple[Callable[[], None], int | None, int | None]] = {
    "returns": (lambda: None, 0, None),
    "exits 7": (_leave(7), 7, None),
    "exits with a word": (_leave("word"), 1, None),
    "raises": (_raise, 1, None),
    "os._exit": (lambda: os._exit(9), 9, None),
    "segfault": (_segfault, None, signal.SIGSEGV),
    "abort": (os.abort, None, signal.SIGABRT),
    "SIGKILL": (_die(signal.SIGKILL), None, signal.SIGKILL),
    "SIGTERM": (_die(signal.SIGTERM), None, signal.SIGTERM),
}


def scatter(write: int) -> None:
    """Daemons of every kind, all deaf."""
    for index in range(4):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if os.fork() == 0:
                os.close(1) if index % 2 else None
                os.environ.clear()
                time.sleep(300)
            os._exit(0)
        os.wait()
    os.write(write, b"x")
