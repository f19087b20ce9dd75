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
    """One extra run of a candidate that crashed, in a sanitizer; 0: none."""
    sanitize: bool = False
    """Such a run also of what would be the best so far; findings are noted."""
    observe_share: float = 0.25
    """Of the time that judging a correct candidate took, for its profile."""
    counters_s: float = 30.0
    """One extra run of a correct candidate under Nsight Compute, if requested."""
    start_s: float = 120.0
    """A child's interpreter and torch import."""
    memory_bytes: int = 16 << 30
    """Of all processes of an untrusted child; on the CPU of each one's address space, too."""
    processes: int = 256
    file_bytes: int = 1 << 30
    tmpfs_bytes: int = 2 << 30
    """Of an untrusted child's own file system, where it has one."""
    descriptors: int = 1024
    cpu_s: int = 1200
    """CPU seconds, summed over threads, of one untrusted process."""
    output_bytes: int = 64 << 10
    """Kept of what a child prints: the first and the last half."""
    threads: int | None = None
    """At most so many torch and OpenMP threads; by default one on each core that times."""
