"""The envelope around a body, the blob beside it, and the hash that chains them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from events.bodies import Body, Kind

__all__ = ["Blob", "Event", "chain_hash", "chained", "genesis_hash", "sha256_hex"]

_DOMAIN = b"stark-log-1"
_LENGTH = struct.Struct(">Q")


def sha256_hex(data: bytes) -> str:
    """The name of a blob: lower-case hex of its uncompressed content's sha256."""
    return hashlib.sha256(data).hexdigest()


class Blob(msgspec.Struct, frozen=True):
    """A text that an event refers to. ``name`` says what it is to that event."""

    name: str
    data: bytes

    @classmethod
    def text(cls, name: str, text: str) -> Blob:
        # A lone surrogate (a model can emit one) must not make a reply unstorable.
        return cls(name, text.encode("utf-8", "surrogatepass"))

    @property
    def sha256(self) -> str:
        return sha256_hex(self.data)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the log, decoded.

    ``seq`` counts in the file, ``run_seq`` in the run, both from 1 without gaps.
    ``epoch`` rises with each writer that opened the file.
    """

    seq: int
    run_id: int
    run_seq: int
    epoch: int
    kind: Kind
    ts_us: int
    body: Body
    hash: bytes
    blobs: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        return self.body.TYPE


def genesis_hash(run_uid: str, created_us: int, parent: bytes = b"") -> bytes:
    """What the first event of a run chains from: the run's identity and, for a fork, the
    hash of the parent's event at the fork."""
    identity = f"{run_uid}/{created_us}/".encode()
    return hashlib.sha256(_DOMAIN + b"\0" + identity + parent).digest()


def chain_hash(previous: bytes, content: bytes) -> bytes:
    """sha256 over the previous hash and what ``chained`` makes of an event."""
    return hashlib.sha256(_DOMAIN + previous + content).digest()


def chained(
    *,
    run_seq: int,
    epoch: int,
    kind: str,
    type_: str,
    ver: int,
    ts_us: int,
    body: bytes,
    blobs: Sequence[tuple[str, str]],
) -> bytes:
    """What a hash covers of an event: the length-prefixed header fields and body, and the
    (name, sha256) of each blob.

    The file's ``seq`` is left out, so that a run keeps its chain when it is copied into
    another file.
    """
    hashed = [
        _field(b"%d" % run_seq), _word(epoch), _word(kind), _word(type_),
        _word(ver), _field(b"%d" % ts_us), _word(len(blobs)), _field(body),
    ]  # fmt: skip
    for name, sha in blobs:
        hashed += (_field(name.encode()), _field(bytes.fromhex(sha)))
    return b"".join(hashed)


def _field(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


@lru_cache(maxsize=1024)
def _word(value: str | int) -> bytes:
    """A field that comes again and again."""
    return _field(str(value).encode())
