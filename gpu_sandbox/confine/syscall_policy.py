"""System calls by what they would do, for the filter (``seccomp_filter.py``)."""

from __future__ import annotations

_BY_REASON = {
    "other processes' memory, descriptors and scheduling": (
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp"
        " pidfd_getfd migrate_pages"
    ),
    "a time slice of its own, or a clock that does not fall, unlike the other side of a pair": (
        "sched_setattr"
    ),
    "which shared files are in memory: notes for the next candidate": "cachestat",
    "kernel interfaces with a record of holes": (
        "io_uring_setup io_uring_enter io_uring_register bpf perf_event_open userfaultfd"
        " memfd_secret modify_ldt lookup_dcookie fanotify_init fanotify_mark open_by_handle_at"
        " add_key request_key keyctl"
    ),
    "the file system tree and namespaces": (
        "mount umount2 pivot_root chroot setns unshare open_tree move_mount fsopen fsconfig fsmount"
        " fspick mount_setattr statmount listmount"
    ),
    "the machine": (
        "kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff"
        " quotactl quotactl_fd acct settimeofday clock_settime clock_adjtime adjtimex sethostname"
        " setdomainname iopl ioperm syslog vhangup nfsservctl uselib sysfs ustat _sysctl"
    ),
    # Without a namespace they reach, and outlive, every process. With one a kernel thread frees
    # them when the jail is gone: a second for gigabytes, beside what is timed then. Python, torch,
    # Triton, OpenMP and CUDA's tools do without (files in /dev/shm).
    "SysV and POSIX queues": (
        "shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open"
        " mq_unlink"
    ),
    # A signal from the kernel would wake one, and what runs out or comes in takes the processor in
    # an interrupt, for each of thousands of epolls that wait for it. (``fcntl`` and ``setitimer``
    # can ask for such signals, too: seccomp_filter.py.) Blocking calls end with the stop.
    "what goes on while all processes of a jail are stopped": (
        "timer_create timerfd_create alarm io_setup"
    ),
}
REFUSED = tuple(name for names in _BY_REASON.values() for name in names.split())
XATTRS = tuple(
    f"{prefix}{what}xattr" for what in ("get", "set", "list", "remove") for prefix in ("", "l", "f")
)
WATCHES = ("inotify_init", "inotify_init1", "inotify_add_watch")
OWNERS = ("chown", "lchown", "fchown", "fchownat")
TIMES = ("utime", "utimes", "futimesat", "utimensat")
MODE_ARGUMENT = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""Calls that set a file's mode: the argument that is the mode."""
SOCKET_PEERS = ("connect", "accept", "accept4")
NAMING = ("bind", "listen")
BY_PID = ("sched_setparam", "sched_setscheduler")
"""Calls whose first argument is a process; ``prlimit64`` is one, too (seccomp_filter.py)."""
BY_KIND = {"setpriority": 0, "ioprio_set": 1}
"""Calls whose first two arguments are a kind and a name: the kind that is a process."""
