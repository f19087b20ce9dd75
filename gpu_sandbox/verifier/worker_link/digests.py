"""Plain values of calls on a GPU: numbers, texts, and what they are nested in.

No place belongs to them, so a worker keeps what its calls had of them, and tells a digest of each
call's while the clock runs. Those of some that were chosen in secret are asked for afterwards, and
have to be what was digested.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_sandbox.ipc.cpu_call_messages import NOTHING_PLAIN
from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.ipc.verifier_messages import Forged
from gpu_sandbox.ipc.worker_messages import Ran, Recall
from gpu_sandbox.tensors.pytree import plain_digest
from gpu_sandbox.verifier.worker_link.client import Peer

_LOOKED_AT = 2
"""Of the chosen calls, beside the last one: where rounding turns what is counted, each look takes a
while."""


def digest_of(peer: Peer, tree: Tree) -> bytes:
    """``plain_digest`` of what the worker told."""
    try:
        return plain_digest(tree)
    except RecursionError:  # msgspec goes deeper than Python, from 3.12 on
        raise peer.ended(Forged(reason="its output is nested deeper than any can be")) from None


def recall_trees(
    peer: Peer, last: Ran, digests: Sequence[bytes], calls: int, chosen: Sequence[int]
) -> list[Tree]:
    """The trees of the first few chosen ones of so many calls; none where ``digests`` say that
    there is nothing but tensors. Raises ``Ended`` for what is not what was digested."""
    told = [*digests] or [NOTHING_PLAIN] * calls
    if len(told) != calls or digest_of(peer, last.tree) != told[-1]:
        raise peer.ended(Forged(reason="its output is not what it was when its call was done"))
    if all(digest == NOTHING_PLAIN for digest in told):
        return []
    return [
        last.tree if told[number] == told[-1] else _asked_for(peer, number, told[number])
        for number in chosen[:_LOOKED_AT]
    ]


def _asked_for(peer: Peer, number: int, digest: bytes) -> Tree:
    tree = peer.ask(Recall(call=number), Ran, "bench").tree
    if digest_of(peer, tree) != digest:
        raise peer.ended(Forged(reason="its output is not what it was when its call was done"))
    return tree
