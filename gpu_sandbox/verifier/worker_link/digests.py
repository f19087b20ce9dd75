"""Plain values of calls on a GPU: a worker keeps them and reports a digest while the clock runs.

Those of some secretly chosen calls are asked for afterwards, and have to match their digest.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_sandbox.ipc.cpu_call_messages import NOTHING_PLAIN
from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.ipc.verifier_messages import Forged
from gpu_sandbox.ipc.worker_messages import Ran, Recall
from gpu_sandbox.tensors.pytree import plain_digest
from gpu_sandbox.verifier.worker_link.client import Peer

_CHECKED = 2  # of the chosen calls, beside the last: a check of rounded counts takes a while


def digest_of(peer: Peer, tree: Tree) -> bytes:
    """``plain_digest`` of what the worker described."""
    try:
        return plain_digest(tree)
    except RecursionError:  # msgspec goes deeper than Python, from 3.12 on
        raise peer.ended(Forged(reason="its output is nested deeper than any can be")) from None


def recall_trees(
    peer: Peer, last: Ran, digests: Sequence[bytes], calls: int, chosen: Sequence[int]
) -> list[Tree]:
    """The trees of the first few chosen ones of so many calls; none where ``digests`` say that
    there are only tensors. Raises ``Ended`` for one that does not match its digest."""
    reported = [*digests] or [NOTHING_PLAIN] * calls
    if len(reported) != calls or digest_of(peer, last.tree) != reported[-1]:
        raise peer.ended(Forged(reason="its output is not what it was when its call was done"))
    if all(digest == NOTHING_PLAIN for digest in reported):
        return []
    return [
        last.tree
        if reported[number] == reported[-1]
        else _asked_for(peer, number, reported[number])
        for number in chosen[:_CHECKED]
    ]


def _asked_for(peer: Peer, number: int, digest: bytes) -> Tree:
    tree = peer.ask(Recall(call=number), Ran, "bench").tree
    if digest_of(peer, tree) != digest:
        raise peer.ended(Forged(reason="its output is not what it was when its call was done"))
    return tree
