"""Settings of malloc: memory that a call frees stays with the process.

Else each call faults in the pages of a large output anew, which may take longer than its kernel.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = (1 << 31) - 1


def keep_freed_memory() -> None:
    """In glibc; another libc is left as it is. Environment variables worked in some processes
    only."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _NEVER)
        mallopt(_M_MMAP_MAX, 0)
