"""Files that engines of all users lock devices by.

They lie in a sticky directory of root's, where users can't remove or rename each other's files.
Links are not followed. Nothing is ever written.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from gpu_sandbox.api.evaluator import PrerequisiteMissing

VARIABLE = "GPU_SANDBOX_LEASES"
_SHARED = (Path("/run/lock"), Path("/tmp"))
"""Neither is a user's or a job's own, as ``TMPDIR`` may be. Old files stay in the first, which
not every system lets users write to."""
_FOR_ALL = stat.S_ISVTX | 0o777


def lock_directory() -> Path:
    """The same one for all engines of a host."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    return next((place for place in _SHARED if _is_for_all(place)), _SHARED[-1])


def _is_for_all(directory: Path) -> bool:
    """By its mode, which is the same for every user: root could write anywhere."""
    try:
        mode = directory.stat().st_mode
    except OSError:
        return False
    return mode & _FOR_ALL == _FOR_ALL and os.access(directory, os.W_OK)  # not read-only


def lock_file(directory: Path, identity: str) -> Path:
    return directory / ("gpu-sandbox-" + re.sub(r"[^A-Za-z0-9_.-]", "_", identity) + ".lock")


def opened(path: Path) -> int:
    """A descriptor of its own. Raises ``PrerequisiteMissing`` where there can be none."""
    try:
        try:
            descriptor = _open(path)
        except FileNotFoundError:
            _make(path)
            descriptor = _open(path)
    except OSError as error:
        raise refusal(path, error.strerror or str(error)) from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise refusal(path, "not a plain file")


def _open(path: Path) -> int:
    """Without ``O_CREAT``, which the kernel refuses for another user's file in a sticky
    directory, even to root (``fs.protected_regular``)."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    with suppress(OSError):
        os.utime(descriptor)  # in use: /tmp is cleared of what is older than some days
    return descriptor


def _make(path: Path) -> None:
    """It appears with its mode, whatever the umask is; unless another engine was faster."""
    descriptor, name = tempfile.mkstemp(prefix=".gpu-sandbox-", dir=path.parent)
    try:
        os.fchmod(descriptor, 0o666)
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.close(descriptor)
        os.unlink(name)


def refusal(path: Path, why: str) -> PrerequisiteMissing:
    """With what to do about it."""
    return PrerequisiteMissing(
        f"the lock of a device, {path}: {why}. Its owner can let others in (chmod 666), root can"
        f" remove it; or set {VARIABLE} to a directory that all engines of this machine can"
        " write to, the same one for each"
    )
