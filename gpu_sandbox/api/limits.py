"""What a child may use, and for how long. Wall-clock limits are in seconds."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one evaluation; every one of them ends in a kill, never in a wait."""

    compile_s: float = 120.0
    """Import and build of one candidate, full-header retry included."""
    call_s: float = 60.0
    """One answer of the worker: load, one forward, or one batch of timed calls."""
    bench_s: float | None = None
    """Cap on taking pairs; by default 3 s on the CPU and 5 s on CUDA."""
    device_s: float = 600.0
    """Everything under the lease. Reached only when the trusted side is stuck."""
    autopsy_s: float = 20.0
    """One extra run of a candidate that crashed, in a sanitizer; 0: none. What it finds is there
    within some seconds as a rule, and a GPU is not timed on meanwhile."""
    sanitize: bool = False
    """Such a run also of what would be the best so far; what it finds is noted."""
    observe_share: float = 0.25
    """Of the time that judging a correct candidate took, what looking at it once more, for
    its profile, may add."""
    counters_s: float = 30.0
    """One extra run of a correct candidate under Nsight Compute, where that is asked for."""
    start_s: float = 120.0
    """A child's interpreter and torch import."""
    memory_bytes: int = 16 << 30
    """Of all that an untrusted child starts; of the address space of each process, too, on the CPU
    (CUDA can't live under such a limit)."""
    processes: int = 256
    file_bytes: int = 1 << 30
    tmpfs_bytes: int = 2 << 30
    """Everything that an untrusted child may write, where it has a file system of its own."""
    descriptors: int = 1024
    cpu_s: int = 1200
    """CPU seconds, summed over threads, of one untrusted process."""
    output_bytes: int = 64 << 10
    """Kept of what a child prints: the first and the last half."""
    threads: int | None = None
    """At most so many torch and OpenMP threads; by default one on each core that times."""
