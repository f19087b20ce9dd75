"""Texts by their sha256: those of this process at once, older ones out of the log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from events.envelope import Blob

__all__ = ["Texts", "storable"]

_KEPT = 4096


def storable(text: str) -> str:
    """A line from outside as an event's body can hold it: JSON has no lone surrogates."""
    return text.encode("utf-8", "replace").decode()


class Texts:
    """A bounded cache in front of the log's blobs.

    A text that was just appended is found here before its commit; by the time it is
    pushed out by thousands of others it is on disk.
    """

    def __init__(self, load: Callable[[str], str]) -> None:
        self._load = load
        self._kept: OrderedDict[str, str] = OrderedDict()

    def put(self, name: str, text: str) -> Blob:
        """Remember ``text`` and return the blob to append."""
        blob = Blob.text(name, text)
        self._keep(blob.sha256, text)
        return blob

    def get(self, sha256: str | None) -> str:
        """The text; the empty string for None. Raises ``LogDamaged`` if it is missing."""
        if sha256 is None:
            return ""
        text = self._kept.get(sha256)
        if text is None:
            text = self._load(sha256)
        self._keep(sha256, text)
        return text

    def _keep(self, sha256: str, text: str) -> None:
        self._kept[sha256] = text
        self._kept.move_to_end(sha256)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
