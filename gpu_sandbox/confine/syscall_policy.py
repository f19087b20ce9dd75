"""System calls by what they would do, for the filter (``seccomp_filter.py``)."""

from __future__ import annotations

__all__ = [
    "BEING_NAMED",
    "BY_KIND",
    "BY_PID",
    "DATING",
    "MEETING",
    "MODE_OF",
    "NOTES",
    "OWNING",
    "REFUSED",
    "WATCHING",
]

REFUSED = (
    # other processes' memory, descriptors and scheduling
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "kcmp",
    "pidfd_getfd",
    "migrate_pages",
    # a slice of its own, or a clock that does not fall: the other side of a pair has neither
    "sched_setattr",
    # which of everybody's files are in memory: notes that the next one could read
    "cachestat",
    # kernel interfaces with a record of holes
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "memfd_secret",
    "modify_ldt",
    "lookup_dcookie",
    "fanotify_init",
    "fanotify_mark",
    "open_by_handle_at",
    "add_key",
    "request_key",
    "keyctl",
    # the file system tree and namespaces
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "setns",
    "unshare",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "statmount",
    "listmount",
    # the machine
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "reboot",
    "swapon",
    "swapoff",
    "quotactl",
    "quotactl_fd",
    "acct",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "iopl",
    "ioperm",
    "syslog",
    "vhangup",
    "nfsservctl",
    "uselib",
    "sysfs",
    "ustat",
    "_sysctl",
    # SysV and POSIX queues. Without a namespace they reach, and outlive, everyone, and by its id
    # one is used that nobody asked for. With one they are freed by a thread of the kernel when the
    # jail is gone: gigabytes take it a second, beside what is timed then. Python, torch, Triton and
    # OpenMP share memory, and have semaphores, by files in /dev/shm; CUDA, CUPTI, Nsight Compute
    # and compute-sanitizer work without.
    "shmget",
    "shmat",
    "shmctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "mq_open",
    "mq_unlink",
    # what goes on while all of a jail's processes are stopped, since another is timed: a signal by
    # nobody, which wakes one (``fcntl`` is asked for one, too), and what runs out or comes in then,
    # which takes the processor in an interrupt, for each of thousands of epolls that wait for it.
    # (``setitimer`` has a kind of those; both in seccomp.py.) Blocking calls end with the stop.
    "timer_create",
    "timerfd_create",
    "alarm",
    "io_setup",
)
NOTES = tuple(
    f"{prefix}{what}xattr" for what in ("get", "set", "list", "remove") for prefix in ("", "l", "f")
)
WATCHING = ("inotify_init", "inotify_init1", "inotify_add_watch")
OWNING = ("chown", "lchown", "fchown", "fchownat")
DATING = ("utime", "utimes", "futimesat", "utimensat")
MODE_OF = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""With the argument that is the mode."""
MEETING = ("connect", "accept", "accept4")
BEING_NAMED = ("bind", "listen")
BY_PID = ("sched_setparam", "sched_setscheduler")
"""And ``prlimit64``, see seccomp.py."""
BY_KIND = {"setpriority": 0, "ioprio_set": 1}
"""With the kind of name that a process has."""
