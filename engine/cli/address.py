"""``LOG`` on the command line: FILE, or FILE#RUN; and the errors of opening one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from engine.cli.exits import Exit, Failure
from events.errors import LogDamaged, LogError, NewerFormat, OlderFormat
from events.reader import LogReader, RunRow

__all__ = ["Opened", "log_errors", "open_run", "open_runs", "split"]


class Opened(msgspec.Struct, frozen=True):
    """A run in an open log. ``name`` is how the command line writes it."""

    reader: LogReader
    run: RunRow
    name: str


def split(address: str) -> tuple[Path, str | None]:
    """``runs/a.db#2`` → the file and ``2``; a file whose own name has ``#`` wins."""
    if Path(address).exists():
        return Path(address), None
    file, mark, run = address.rpartition("#")
    return (Path(file), run) if mark else (Path(address), None)


@contextmanager
def log_errors(path: Path | None = None) -> Iterator[None]:
    """The log's errors as failures: damage is 5, everything else the user's to mend. ``path`` is
    the log's, for errors of events: those do not name it."""
    try:
        yield
    except LogDamaged as error:
        raise Failure(f"{error}\nRun `engine verify` on the log to see all of it.",
                      Exit.DIFFERENT) from error  # fmt: skip
    except (OlderFormat, NewerFormat) as error:
        words = str(error)
        named = words if path is None or str(path) in words else f"{path}: {words}"
        raise Failure(named) from error
    except LogError as error:
        raise Failure(str(error)) from error


@contextmanager
def open_run(address: str) -> Iterator[Opened]:
    """The run that ``address`` names, open for reading."""
    path, run = split(address)
    with log_errors(path), LogReader(path) as reader:
        row = reader.find_run(run)
        name = str(path) if len(reader.runs()) == 1 else f"{path}#{row.run_id}"
        yield Opened(reader, row, name)


def open_runs(addresses: Iterable[str]) -> Iterator[Opened]:
    """Each run that is named, one after the other. A file without ``#RUN`` is all of its
    runs, a folder all of its ``*.db``."""
    for address in addresses:
        if Path(address).is_dir():
            yield from open_runs(str(path) for path in sorted(Path(address).rglob("*.db")))
            continue
        path, name = split(address)
        with log_errors(path), LogReader(path) as reader:
            rows = reader.runs() if name is None else [reader.find_run(name)]
            alone = len(reader.runs()) == 1
            for row in rows:
                yield Opened(reader, row, str(path) if alone else f"{path}#{row.run_id}")
