"""Cached survey: one start of a boot attacks the layers, later ones read what held.

Invariant: a cached survey counts only for the same boot, kernel, rights, namespaces, settings,
layers and code, if every attack in it held, and from a directory and a file that no other user can
write to. Everything else means a new survey.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from gpu_sandbox.confine import cgroups
from gpu_sandbox.confine.kernel_support import Survey, inspect_machine
from gpu_sandbox.confine.survey import NAMESPACE_SETTINGS, survey

_NAME = "survey"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FACTS = ("/proc/version", "/proc/self/attr/current", *NAMESPACE_SETTINGS)
_RIGHTS = ("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp")  # in /proc/self/status


class _Cached(msgspec.Struct, frozen=True):
    key: str
    survey: Survey


def cached_survey(directory: Path, *, without: Collection[str] = ()) -> Survey:
    """The survey that ``directory`` holds for here and now, or else a new one, which it then holds.

    ``directory`` is made if it is missing. What can't be read or written there costs a survey."""
    try:
        key = _key(without)
    except OSError:
        return survey(without=without)
    if known := _read(directory, key):
        cgroups.remove_stale(known.machine.hierarchies)
        return known
    found = survey(without=without)
    with suppress(OSError):
        forget_survey(directory)
        if all(finding.held for finding in found.findings):
            _write(directory, _Cached(key, found))
    return found


def forget_survey(directory: Path) -> None:
    """Have the next start survey again. Raises ``OSError`` if the cached one can't be removed."""
    with ExitStack() as stack:
        try:
            at = stack.enter_context(_opened(directory))
        except OSError:
            return  # what is there is not read either
        with suppress(FileNotFoundError):
            os.unlink(_NAME, dir_fd=at)


def _key(without: Collection[str]) -> str:
    """Digest of all that decides what a survey finds. Raises ``OSError`` where it can't be read."""
    machine, missing = inspect_machine()
    digest = hashlib.sha256(msgspec.json.encode((machine, missing, sorted(without))))
    digest.update(_BOOT_ID.read_bytes())
    for fact in _FACTS:
        with suppress(OSError):
            digest.update(Path(fact).read_bytes())
    for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
        if line.startswith(_RIGHTS):
            digest.update(line.encode())
    for name in sorted(os.listdir("/proc/self/ns")):
        digest.update(os.readlink(f"/proc/self/ns/{name}").encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    digest.update(f"{sys.version} {sys.executable}".encode())
    return digest.hexdigest()


def _read(directory: Path, key: str) -> Survey | None:
    try:
        with _opened(directory) as at:
            file = os.open(_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            with open(file, "rb") as stream:
                _require_own(file)
                cached = msgspec.msgpack.decode(stream.read(), type=_Cached)
    except (OSError, msgspec.MsgspecError):
        return None
    return cached.survey if cached.key == key else None


def _write(directory: Path, cached: _Cached) -> None:
    fresh = f".{_NAME}.{os.urandom(8).hex()}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _opened(directory) as at:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=at)
        try:
            with open(file, "wb") as stream:
                stream.write(msgspec.msgpack.encode(cached))
            os.rename(fresh, _NAME, src_dir_fd=at, dst_dir_fd=at)
        except OSError:
            os.unlink(fresh, dir_fd=at)
            raise


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """A descriptor of it. Raises ``OSError`` if another user can write there."""
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _require_own(at)
        yield at
    finally:
        os.close(at)


def _require_own(fd: int) -> None:
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise PermissionError("another user can write there")
