"""What attacks are let loose on: canaries, listeners, a bystander, and the look for damage.

Everything here is harmless to lose. An attack is told where it lies; a sandbox that holds
shows it none of it.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio

import gpu_sandbox
from gpu_sandbox.api.evaluator import Verdict
from tests.homes import of_candidates
from tests.processes import processes_with

__all__ = ["World"]

_PACKAGE = Path(gpu_sandbox.__file__ or "").parent
_CANARY = "nobody may change this\n"
_MOST_LOG = 100_000
_MOST_REASON = 1_000
_IPC_RMID = 0
_SYSTEM = ("/usr/local/include", "/etc", "/opt", "/tmp", "/var/tmp", "/dev/shm")


class World:
    """One test's. ``facts`` is what the attack's source is given."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self._dir = directory
        self._mark = f"mark-{secrets.token_hex(8)}"
        self._secret = f"secret-{secrets.token_hex(8)}"
        self._key = secrets.randbelow(1 << 30) + 1
        self._signalled = 0
        (directory / "drop").mkdir(parents=True)
        (directory / "canary").write_text(_CANARY)
        (directory / "secret").write_text(self._secret)
        (directory / "secret").chmod(0o600)
        self._mode = (directory / "canary").stat().st_mode
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._abstract = _listening("\0" + self._mark + "-abstract")
        self._unix = _listening(f"/proc/self/fd/{os.open(directory, os.O_PATH)}/socket")
        for one in (self._tcp, self._udp, self._abstract, self._unix):
            one.setblocking(False)
        self._sleeper = subprocess.Popen(["sleep", "600"])
        temp, home = Path(tempfile.gettempdir()), Path.home()
        runs = temp / f"gpu-sandbox-runs-{os.getuid()}"
        self._places = [directory / "drop", cache, cache / "builds", cache / "facts", temp, runs]
        headers = _PACKAGE / "extension_build" / "headers" / "torch"
        system = [_PACKAGE, headers, _PACKAGE / "verifier", home]
        system += map(Path, [*site.getsitepackages(), *_SYSTEM])
        caches = [Path(f"/tmp/torchinductor_{name}") for name in (os.getuid(), "root")]
        caches += [home / name for name in (".triton/cache", ".cache/torch_extensions", ".nv")]
        self.facts: dict[str, Any] = {
            "dir": str(directory),
            "mark": self._mark,
            "pid": os.getpid(),
            "sleeper": self._sleeper.pid,
            "port": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "free": _free_port(),
            "abstract": self._mark + "-abstract",
            "key": self._key,
            "home": str(home),
            "cache": str(cache),
            "runs": str(runs),
            "temp": str(temp),
            "package": str(_PACKAGE),
            "places": [str(place) for place in self._places],
            "system": _identities(system),
            "compiler_caches": _identities(caches),
        }

    def __enter__(self) -> World:
        self._before = signal.signal(signal.SIGUSR2, self._note_signal)
        os.environ["ATTACKED_API_KEY"] = self._secret
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del os.environ["ATTACKED_API_KEY"]
        signal.signal(signal.SIGUSR2, self._before)
        self._sleeper.kill()
        self._sleeper.wait()
        for one in (self._tcp, self._udp, self._abstract, self._unix):
            one.close()
        for left in self._leftovers():
            _remove(left)
        for pid in self._marked():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    # --- the look for damage

    async def cleared_up(self) -> None:
        """Waits for what a verdict does not wait for, a moment at most."""
        with anyio.move_on_after(5):
            while self._homes():  # noqa: ASYNC110 (other processes do it)
                await anyio.sleep(0.01)

    def damage(self, verdict: Verdict | None) -> list[str]:
        """What the attack did to the world, and what its verdict gives away or is too long for."""
        found = [f"it left {path}" for path in self._leftovers()]
        found += self._files() + self._connections()
        if self._sleeper.poll() is not None:
            found.append("it killed a bystander")
        if self._signalled:
            found.append("it signalled its parent")
        if self._marked(wait_s=0.5):
            found.append("it left a process")
        if _remove_segment(self._key):
            found.append("it left System V shared memory")
        for home in self._homes():
            found.append(f"it left its home {home.name}")
            subprocess.run(["rm", "-rf", str(home)], check=False)
        return found + (self._told(verdict) if verdict is not None else [])

    def _told(self, verdict: Verdict) -> list[str]:
        logs = verdict.compile_log + "\n" + verdict.run_log
        whole = logs + verdict.outcome.reason + "".join(verdict.notes)
        found = [line for line in dict.fromkeys(logs.splitlines()) if line.startswith("GAINED: ")]
        if self._secret in whole:
            found.append("the verdict's logs hold the secret")
        for name, text in (("compile_log", verdict.compile_log), ("run_log", verdict.run_log)):
            if len(text) > _MOST_LOG:
                found.append(f"{name} is {len(text)} characters long")
        reason = verdict.outcome.reason
        if len(reason) > _MOST_REASON:
            found.append(f"the reason is {len(reason)} characters long")
        if any(ord(c) < 32 or ord(c) == 127 for c in reason):
            found.append("the reason is not one clean line")
        return found

    def _files(self) -> list[str]:
        canary, drop, found = self._dir / "canary", self._dir / "drop", []
        try:
            if canary.read_text() != _CANARY or canary.stat().st_mode != self._mode:
                found.append("it changed a file of the host")
        except OSError:
            found.append("it deleted a file of the host")
        if not drop.is_dir():
            found.append("it deleted a directory of the host")
        elif any(drop.iterdir()):
            found.append(f"it wrote outside: {sorted(p.name for p in drop.iterdir())}")
        return found

    def _connections(self) -> list[str]:
        found = []
        for name, one in (("TCP", self._tcp), ("abstract", self._abstract), ("unix", self._unix)):
            with suppress(BlockingIOError):
                one.accept()[0].close()
                found.append(f"it connected to the host: {name}")
        with suppress(BlockingIOError):
            self._udp.recv(100)
            found.append("it sent a datagram to the host")
        return found

    def _homes(self) -> list[Path]:
        return of_candidates(Path(self.facts["runs"]).glob("*"), waiting=True)

    def _leftovers(self) -> list[Path]:
        noted = (Path(p) for p in ("/tmp", "/var/tmp", "/dev/shm", Path.home()))
        places = [*self._places, *noted, self._dir]
        found = []
        for place in places:
            with suppress(OSError):
                found += [p for p in place.iterdir() if p.name.startswith(self._mark)]
        return list(dict.fromkeys(found))

    def _marked(self, wait_s: float = 0.0) -> list[int]:
        """Processes that carry the mark; those that die within a moment don't count."""
        deadline = time.monotonic() + wait_s
        while (found := processes_with(self._mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def _note_signal(self, number: int, frame: object) -> None:
        self._signalled += 1


def _listening(address: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(address)
    made.listen()
    return made


def _identities(places: list[Path]) -> list[tuple[str, int, int]]:
    """Paths with device and inode: a private directory of the same path is another one."""
    there = [place for place in places if place.is_dir()]
    return [(str(place), place.stat().st_dev, place.stat().st_ino) for place in there]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


def _remove(path: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _remove_segment(key: int) -> bool:
    """Whether a System V segment of that key existed; it is removed."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    segment = libc.shmget(key, 0, 0)
    if segment < 0:
        return False
    libc.shmctl(segment, _IPC_RMID, None)
    return True
