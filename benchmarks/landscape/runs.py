"""Many searches, spread over processes: a variant in a world, for a range of seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from multiprocessing import get_context
from multiprocessing.pool import Pool
from typing import TypeAlias

import msgspec

from benchmarks.landscape.agents import Agents, Rates
from benchmarks.landscape.search import Course, search
from benchmarks.landscape.terrain import Task
from benchmarks.landscape.variants import VARIANTS, config_of
from benchmarks.landscape.worlds import WORLDS
from engine.config import Config

__all__ = ["Batch", "Runs", "level_of", "run", "run_all", "workers"]

_CHUNK = 50


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Searches that differ in their seed only: 0 to ``seeds`` - 1."""

    world: str
    variant: str
    attempts: int
    seeds: int
    rates: Rates


Runs: TypeAlias = list[Course]
"""By seed."""


def level_of(seed: int) -> int:
    """Seeds take turns between the levels; the same seed is the same task everywhere."""
    return 1 + seed % 3


def run(batch: Batch, seeds: Iterable[int]) -> Runs:
    """Some of a batch, in this process."""
    world = WORLDS[batch.world]
    config, courses = _config(batch.variant, batch.attempts), []
    for seed in seeds:
        task = Task(world.landscape, seed=seed, level=level_of(seed))
        agents = Agents(task, world.skill, batch.rates, seed=seed)
        drawn = msgspec.structs.replace(config.search, seed=seed)
        courses.append(search(task, agents, msgspec.structs.replace(config, search=drawn)))
    return courses


@contextmanager
def workers(jobs: int) -> Iterator[Pool]:
    """Processes to search in."""
    # spawn: a fork would inherit the threads of whoever calls this.
    with get_context("spawn").Pool(jobs) as pool:
        yield pool


def run_all(
    batches: list[Batch], pool: Pool, progress: Callable[[int, int], None] = lambda done, all_: None
) -> list[Runs]:
    """Every batch, in the order given. ``progress`` gets searches done and to be done."""
    parts = [
        (batch, range(start, min(start + _CHUNK, batch.seeds)))
        for batch in batches
        for start in range(0, batch.seeds, _CHUNK)
    ]
    courses: Runs = []
    total = sum(batch.seeds for batch in batches)
    for found in pool.imap(_part, parts):
        courses += found
        progress(len(courses), total)
    every = iter(courses)
    return [list(islice(every, batch.seeds)) for batch in batches]


def _part(part: tuple[Batch, range]) -> Runs:
    return run(*part)


@cache
def _config(variant: str, attempts: int) -> Config:
    return config_of(VARIANTS[variant], attempts=attempts)
