"""Memory of the processor's that a call frees stays with the process, for the next one.

Else a large output's pages are faulted in anew by each call, which takes three quarters of a
softmax of 64 MB. That is the allocator's time and no kernel's, and a candidate could do without
by two calls of libc: so both sides have it kept.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = (1 << 31) - 1


def keep_freed_memory() -> None:
    """Of glibc's; another libc is left as it is. The variables that glibc reads when it starts were
    seen to do it in some processes only."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _NEVER)
        mallopt(_M_MMAP_MAX, 0)
