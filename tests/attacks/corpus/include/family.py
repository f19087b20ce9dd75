import os


def family():
    """Processes that descend from the test, and the test itself; never anybody else's."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found = []
    for pid in parents:
        line, above = [], pid
        while above in parents and above not in line:
            line.append(above)
            above = parents[above]
        if WORLD["pid"] in line and pid != os.getpid():
            found.append(pid)
    return found
