"""Run a command and leave a stamp: commit, device, versions, date, and how the command ended.

    python -m benchmarks.stamps PART FOLDER [--budget S] -- COMMAND...

The stamp is FOLDER/PART.stamp.json. The command leaves its results beside it as PART.json or
PART.xml; those of an earlier run are removed first. After S seconds the command is interrupted as
by Ctrl-C, which lets pytest write its report, and 30 seconds later it is killed.

The commit is git's, with a digest of uncommitted changes of its files behind a plus; without a
repository it is ``$COMMIT``, else ``unknown``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec

__all__ = ["UNKNOWN", "Stamp", "commit", "main", "stamps_in"]

ROOT = Path(__file__).parents[1]
UNKNOWN = "unknown"
END = ".stamp.json"
KILLED_AFTER_S = 30.0  # from the interrupt; long enough to close a sandbox


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """``rc`` and ``wall_s`` (seconds) are None while the command runs, and if the stamping
    process did not live to see its end. ``began`` is a moment in UTC."""

    part: str
    commit: str
    device: str
    driver: str
    torch: str
    triton: str
    python: str
    began: str
    command: list[str]
    rc: int | None = None
    wall_s: float | None = None


def stamps_in(folder: Path) -> list[Stamp]:
    """In the order in which their commands began. Raises ``msgspec.DecodeError``."""
    found = [msgspec.json.decode(path.read_bytes(), type=Stamp) for path in folder.glob(f"*{END}")]
    return sorted(found, key=lambda stamp: (stamp.began, stamp.part))


def commit(root: Path = ROOT) -> str:
    if (root / ".git").exists():
        head, changes = _said("git", "-C", f"{root}", "rev-parse", "HEAD"), ""
        if head:
            changes = _said("git", "-C", f"{root}", "diff", "HEAD")
            digest = hashlib.sha256(changes.encode()).hexdigest()[:8]
            return f"{head}+{digest}" if changes else head
    return os.environ.get("COMMIT") or UNKNOWN


def _said(*command: str) -> str:
    """Standard output, stripped; empty where the program is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _device() -> tuple[str, str]:
    """Name and driver of the first visible GPU."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    query = ("--query-gpu=name,driver_version", "--format=csv,noheader")
    name, _, driver = _said("nvidia-smi", "-i", first, *query).partition(", ")
    return name or "no GPU", driver or "-"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "-"


def stamped(part: str, command: list[str]) -> Stamp:
    """Of a command that begins now."""
    device, driver = _device()
    return Stamp(
        part=part,
        commit=commit(),
        device=device,
        driver=driver,
        torch=_version("torch"),
        triton=_version("triton"),
        python=platform.python_version(),
        began=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        command=command,
    )


def _run(command: list[str], budget_s: float | None) -> int:
    """Its exit status, negative for a signal as in ``subprocess``, 127 where it does not start."""
    try:
        process = subprocess.Popen(command, cwd=ROOT)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    try:
        return process.wait(budget_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(KILLED_AFTER_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, help="seconds; then the command is interrupted")
    parser.add_argument("command", nargs="+", help="after --")
    chosen = parser.parse_args(words)
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{chosen.part}.*"):
        old.unlink()
    place = folder / f"{chosen.part}{END}"
    stamp = stamped(chosen.part, chosen.command)
    place.write_bytes(msgspec.json.encode(stamp))
    began = time.monotonic()
    rc = _run(chosen.command, chosen.budget)
    wall_s = round(time.monotonic() - began, 1)
    place.write_bytes(msgspec.json.encode(msgspec.structs.replace(stamp, rc=rc, wall_s=wall_s)))
    print(f"{chosen.part}: exit {rc} after {wall_s:.0f} s", flush=True)
    return rc if 0 <= rc < 256 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
