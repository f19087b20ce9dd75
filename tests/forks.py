"""Processes that start in milliseconds: forks of a server that has imported what they need."""

from __future__ import annotations

import multiprocessing

__all__ = ["FORKS"]

FORKS = multiprocessing.get_context("forkserver")
"""``multiprocessing`` has but one such server, so it imports what any of the tests' forks needs."""

FORKS.set_forkserver_preload(
    ["anyio._backends._asyncio", "anyio._backends._trio", "events.writer", "events.verify",
     "engine.loop.run", "engine.loop.start", "agents.clients.anthropic", "anthropic",
     "torch", "gpu_sandbox.worker.main"]
)  # fmt: skip
