"""A disk that forgets: what may be on it after the power went, at any moment of a recording.

POSIX promises only that what was written before a sync of its file is there. Of what came
later any sectors may be there and others not, in whatever order they were written; the
file's length may be the old or the new one; a name made or removed since its directory was
synced may be there or not.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.faults.vfs import Op

__all__ = ["MOODS", "Disk"]

SECTOR = 512

MOODS = ("lost", "kept", "cut", "mixed", "few", "most", "garbage")


class _File:
    def __init__(self, syncs_folder: bool) -> None:
        self.syncs_folder = syncs_folder
        self.safe = bytearray()
        self.pending: list[Op] = []


class Disk:
    """Fed with operations in order; ``image`` is what a crash now may leave."""

    def __init__(self) -> None:
        self.committed = 0
        self._safe_names: dict[str, _File] = {}
        self._names: dict[str, _File] = {}
        self._renames: list[tuple[str, _File | None]] = []

    def feed(self, op: Op) -> None:
        match op.what:
            case "open":
                if op.name not in self._names:
                    self._name(op.name, _File(op.synced))
                self._names[op.name].syncs_folder |= op.synced
            case "write" | "truncate":
                self._names[op.name].pending.append(op)
            case "sync":
                self._sync(self._names[op.name])
            case "delete":
                self._name(op.name, None)
                if op.synced:
                    self._sync_folder()
            case "committed":
                self.committed = op.at

    def _name(self, name: str, file: _File | None) -> None:
        self._renames.append((name, file))
        _rename(self._names, name, file)

    def _sync(self, file: _File) -> None:
        for op in file.pending:
            _apply(file.safe, op)
        file.pending.clear()
        if file.syncs_folder:
            file.syncs_folder = False
            self._sync_folder()

    def _sync_folder(self) -> None:
        self._safe_names = dict(self._names)
        self._renames.clear()

    def image(self, mood: str, chance: random.Random) -> dict[str, bytes]:
        names = dict(self._safe_names)
        for name, file in self._renames:
            if mood == "kept" or (mood != "lost" and chance.random() < 0.5):
                _rename(names, name, file)
        return {name: bytes(_crashed(file, mood, chance)) for name, file in names.items()}


def _rename(names: dict[str, _File], name: str, file: _File | None) -> None:
    names.pop(name, None)
    if file is not None:
        names[name] = file


def _apply(content: bytearray, op: Op) -> None:
    if op.what == "truncate":
        del content[op.at :]
    else:
        content.extend(bytes(max(0, op.at - len(content))))
        content[op.at : op.at + len(op.data)] = op.data


def _crashed(file: _File, mood: str, chance: random.Random) -> bytearray:
    content = bytearray(file.safe)
    match mood:
        case "lost":
            return content
        case "kept":
            kept: Iterable[Op] = file.pending
        case "cut":  # in order, up to somewhere inside a write
            upto = chance.randint(0, len(file.pending))
            kept = file.pending[:upto]
            if upto < len(file.pending) and file.pending[upto].what == "write":
                sectors = list(_sectors(file.pending[upto]))
                kept = [*kept, *sectors[: chance.randint(0, len(sectors))]]
        case _:
            share = {"few": 0.1, "most": 0.9}.get(mood, 0.5)
            if mood == "garbage":
                _spread_garbage(content, file.pending, chance)
            pieces = (piece for op in file.pending for piece in _sectors(op))
            kept = [piece for piece in pieces if chance.random() < share]
    for op in kept:
        _apply(content, op)
    return content


def _spread_garbage(content: bytearray, pending: list[Op], chance: random.Random) -> None:
    """What was never written may be anything in a file that has grown."""
    end = max((op.at + len(op.data) for op in pending), default=0)
    if end > len(content):
        content.extend(chance.randbytes(end - len(content)))


def _sectors(op: Op) -> Iterable[Op]:
    """A write falls apart at the disk's sectors; a truncation happens or does not."""
    if op.what == "truncate":
        yield op
        return
    at, end = op.at, op.at + len(op.data)
    while at < end:
        upto = min(end, (at // SECTOR + 1) * SECTOR)
        yield op._replace(at=at, data=op.data[at - op.at : upto - op.at])
        at = upto
