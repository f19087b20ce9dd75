"""The slim binding and precompiled headers, built once by trusted children and then only read.

``ROOT/KEY`` holds ``binding.o``, ``linker`` and ``headers/NAME`` with a precompiled header for one
set of flags. A header costs what it saves in about four builds, so the first candidate with new
flags goes without; the oldest are dropped when there are many.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio

from gpu_sandbox.builds.build_cache import BuildCache
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.supervise.child_process import Spec, child
from gpu_sandbox.supervise.zygote_client import Zygote
from gpu_sandbox.toolchain.compiler_flags import header_name
from gpu_sandbox.toolchain.environment import child_environment
from gpu_sandbox.toolchain.identity import toolchain, torch_identity

_MAX_HEADERS = 8
_WORTH_IT = 2
_LIMIT_S = 180.0


class PrecompiledHeaders:
    """Safe for concurrent calls of one loop: each file is built by one of them."""

    def __init__(
        self, root: Path, zygote: Zygote, cores: tuple[int, ...], keeping: Keeping
    ) -> None:
        self._root = root
        self._keeping = keeping
        self._zygote = zygote
        self._cores = cores
        self._locks: dict[Path, anyio.Lock] = {}
        self._asked: Counter[tuple[str, ...]] = Counter()
        self._impossible: set[Path] = set()

    async def for_flags(self, flag_sets: list[tuple[str, ...]]) -> Path | None:
        """The directory, with the headers that are worth it; None where nothing can be built."""
        place = self._place()
        if not await self._there(place / "binding.o", None):
            return None
        for flags in flag_sets:
            self._asked[flags] += 1
            header = place / "headers" / header_name(flags)
            if self._asked[flags] >= _WORTH_IT or _present(header):
                await self._there(header, flags)
        return place

    def place(self) -> Path | None:
        """The directory, if the binding was built."""
        place = self._place()
        return place if (place / "binding.o").is_file() else None

    def _place(self) -> Path:
        return self._root / BuildCache.key(torch_identity(), toolchain())

    async def _there(self, wanted: Path, flags: tuple[str, ...] | None) -> bool:
        if wanted in self._impossible:
            return False
        async with self._locks.setdefault(wanted, anyio.Lock()):
            if _present(wanted):
                return True
            built = False
            with self._keeping:
                built = await self._build(wanted, flags)
        if not built:  # builds work without, only slower
            self._impossible.add(wanted)
        return built

    async def _build(self, wanted: Path, flags: tuple[str, ...] | None) -> bool:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        run = self._zygote.run
        fresh = wanted.parent / f".{run.token}.{wanted.name}"
        fresh.mkdir()
        home = run.home("prebuild")
        spec = Spec(
            module="gpu_sandbox.compiler.precompile_main",
            arguments={
                "directory": str(fresh),
                "flags": None if flags is None else list(flags),
                "cores": list(self._cores),
            },
            directory=home,
            environment=child_environment(home),
            token=secrets.token_hex(8),
            limits=self._zygote.limits,
        )
        try:
            async with child(spec) as running:
                ended = await running.exited_within(_LIMIT_S)
                await running.end()
            if not ended or running.returncode != 0:
                return False
            with suppress(OSError):  # another process may have been faster
                _moved(fresh, wanted)
            if flags is not None:
                await anyio.to_thread.run_sync(self._drop_oldest)
            return _present(wanted)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _drop_oldest(self) -> None:
        headers = [p for p in self._root.glob("*/headers/*") if not p.name.startswith(".")]
        headers.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in headers[_MAX_HEADERS:]:
            shutil.rmtree(path, ignore_errors=True)


def _moved(fresh: Path, wanted: Path) -> None:
    """A header is a directory; the binding comes last of the files that go with it."""
    if wanted.parent.name == "headers":
        fresh.rename(wanted)
        return
    for path in sorted(fresh.iterdir(), key=lambda path: path.name == wanted.name):
        path.rename(wanted.parent / path.name)


def _present(wanted: Path) -> bool:
    """Whether it exists; marks it as used."""
    with suppress(OSError):
        os.utime(wanted)
        return True
    return False
