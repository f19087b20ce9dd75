"""Which layers hold on this machine: each is set up, alone and with the others, and attacked.

Invariants: a layer is promised only if a real ward could be started with it and every attack
that it claims to refuse was refused while it stood alone, and again while all stood together;
every other layer has a reason that says what to do. The survey leaves nothing behind.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import msgspec

from gpu_sandbox.confine import cgroups, landlock, seccomp
from gpu_sandbox.confine.attacks import (
    ATTACKS,
    NAMESPACE_FILES,
    Attack,
    Result,
    Targets,
    attempt,
    tight_policy,
)
from gpu_sandbox.confine.facts import Finding, Machine, Survey
from gpu_sandbox.confine.identity import SYS_ADMIN, uid_range
from gpu_sandbox.confine.policy import (
    CGROUP,
    CGROUP_NAMESPACE,
    IPC,
    LANDLOCK,
    LAYERS,
    MOUNT,
    NET,
    NO_NEW_PRIVS,
    PID,
    RLIMITS,
    SECCOMP,
    UID,
    USER,
    UTS,
    SpawnFailed,
    tier_of,
)
from gpu_sandbox.confine.spawn import Ward, spawn
from gpu_sandbox.confine.syscalls import NUMBERS, call, lacks
from gpu_sandbox.confine.view import base_view

__all__ = ["survey"]

_NAMESPACES = (MOUNT, NET, IPC, PID, UTS, CGROUP_NAMESPACE)
_ATTACK_S = 10.0
_IPC_CREAT, _IPC_RMID = 0o1000, 0
_DAEMON = "leave a daemon behind"
_LONGEST_SOCKET_PATH = 100


def survey(*, without: Collection[str] = ()) -> Survey:
    """Look, try and attack: 0.1 to 0.5 s. ``without``: layers to do without, by name.

    Call it in the zygote itself, or in a process with the same rights, ``sys.path`` and
    environment. Raises ``SpawnFailed`` if not even an unconfined ward can be started.
    """
    began = time.monotonic()
    machine, missing = _look()
    missing |= dict.fromkeys(without, "turned off")
    wanted = [layer for layer in LAYERS if layer not in missing]
    if not lacks(SYS_ADMIN) and USER in wanted:
        wanted.remove(USER)  # a privileged process needs none
    cgroups.remove_stale(machine.hierarchies)
    findings: list[Finding] = []
    with _targets() as targets:
        layers = _settle(wanted, missing, machine, targets, findings)
        _attack_each(layers, machine, targets, findings)
    for finding in findings:
        if not finding.held:
            for layer in _blamed(finding, layers):
                layers.remove(layer)
                missing[layer] = f"an attack got through ({finding.attack}: {finding.detail})"
    return Survey(
        layers=tuple(layers),
        missing={layer: missing[layer] for layer in LAYERS if layer in missing},
        tier=tier_of(set(layers), kernel_has_landlock=machine.landlock_abi > 0),
        findings=tuple(findings),
        machine=machine,
        seconds=time.monotonic() - began,
    )


def _blamed(finding: Finding, layers: Sequence[str]) -> list[str]:
    if finding.layer != "all":
        return [finding.layer] if finding.layer in layers else []
    attack = next((a for a in ATTACKS if a.name == finding.attack), None)
    return [layer for layer in layers if attack is not None and layer in attack.layers]


def _look() -> tuple[Machine, dict[str, str]]:
    missing: dict[str, str] = {}
    uids, reason = uid_range()
    if uids is None:
        missing[UID] = reason
    abi = landlock.abi()
    if abi == 0:
        missing[LANDLOCK] = "not in this kernel: Linux 5.13 with lsm=landlock,… has it"
    if not seccomp.supported() or _status("Seccomp") is None:
        missing[SECCOMP] = "this kernel has no seccomp, or no filter for this architecture"
    hierarchies, reason = cgroups.find()
    if {"memory", "pids"} - {c for h in hierarchies for c in h.controllers}:
        missing[CGROUP] = reason
        hierarchies = ()
    machine = Machine(
        view=base_view(),
        uids=uids,
        landlock_abi=abi,
        hierarchies=hierarchies,
        own_process_count=_kernel() >= (5, 14),
    )
    return machine, missing


def _kernel() -> tuple[int, int]:
    words = os.uname().release.split(".")
    try:
        return int(words[0]), int(words[1].split("-")[0])
    except (ValueError, IndexError):
        return (0, 0)


def _status(name: str) -> str | None:
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
    return None


def _settle(
    wanted: list[str],
    missing: dict[str, str],
    machine: Machine,
    targets: Targets,
    findings: list[Finding],
) -> list[str]:
    """The layers with which a ward starts; attacks it while all of them stand."""
    layers = list(wanted)
    while True:
        trial = _trial(layers, machine)
        attacks = [a for a in ATTACKS if not a.layers or _claims(a, layers, machine)]
        try:
            with _scratch() as home, _attacked(trial, home, targets, attacks) as collect:
                findings += collect("all")
            return layers
        except SpawnFailed as failure:
            if failure.layer not in layers:
                raise
            _give_up(failure.layer, failure.reason, layers, missing)


def _give_up(layer: str, reason: str, layers: list[str], missing: dict[str, str]) -> None:
    missing[layer] = reason + _advice(layer, reason, by_user=USER in layers)
    layers.remove(layer)
    dependants: tuple[str, ...] = ()
    if layer == USER:
        dependants = _NAMESPACES
    elif layer == MOUNT:
        dependants = (PID,)  # whose /proc can't be mounted then
    for other in dependants:
        if other in layers:
            layers.remove(other)
            missing[other] = f"needs {layer}, which is missing: {missing[layer]}"
    if USER in layers and not any(name in layers for name in _NAMESPACES):
        layers.remove(USER)
        missing[USER] = "allows none of the other namespaces here"


def _advice(layer: str, reason: str, *, by_user: bool) -> str:
    """What to do, if the machine's settings tell."""
    if "/proc is refused" in reason:
        return (
            "; a container that hides parts of /proc does that "
            "(--security-opt systempaths=unconfined, or procMount: Unmasked)"
        )
    if layer == USER or (layer in _NAMESPACES and by_user):
        for name, bad, fix in (
            ("user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
            ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
            (
                "kernel/apparmor_restrict_unprivileged_userns",
                "1",
                "kernel.apparmor_restrict_unprivileged_userns=0",
            ),
        ):
            with suppress(OSError), open(f"/proc/sys/{name}", encoding="ascii") as file:
                if file.read().strip() == bad:
                    return f"; sysctl {fix}"
    if layer == USER or layer in _NAMESPACES:
        return "; in a container: --cap-add SYS_ADMIN, or a seccomp profile that allows it"
    return ""


def _claims(attack: Attack, layers: Sequence[str], machine: Machine) -> bool:
    return any(_claims_alone(attack, layer, layers, machine) for layer in layers)


def _claims_alone(attack: Attack, layer: str, layers: Sequence[str], machine: Machine) -> bool:
    if layer == LANDLOCK and machine.landlock_abi < attack.landlock_abi:
        return False
    if layer == RLIMITS and attack.per_user:
        return UID in layers or (USER in layers and machine.own_process_count)
    return layer in attack.layers


def _attack_each(
    layers: Sequence[str], machine: Machine, targets: Targets, findings: list[Finding]
) -> None:
    """All side by side: what they wait for is mostly the kernel."""
    with ExitStack() as stack:
        collectors: list[tuple[str, Callable[[str], list[Finding]]]] = []
        for layer in layers:
            attacks = [a for a in ATTACKS if _claims_alone(a, layer, layers, machine)]
            trial = _trial(_with_needs(layer, layers), machine)
            if not attacks:
                continue
            home = stack.enter_context(_scratch())
            try:
                collect = stack.enter_context(_attacked(trial, home, targets, attacks))
            except SpawnFailed as failure:
                detail = f"could not be set up alone: {failure}"
                findings.append(
                    Finding(attack="stand alone", layer=layer, held=False, detail=detail)
                )
                continue
            collectors.append((layer, collect))
        for layer, collect in collectors:
            findings += collect(layer)


def _with_needs(layer: str, layers: Sequence[str]) -> list[str]:
    """A layer alone, with those without which it can't be."""
    needed = {layer}
    if layer in (SECCOMP, LANDLOCK):
        needed.add(NO_NEW_PRIVS)
    if layer == RLIMITS:  # processes are counted by user
        needed |= {UID, USER}
    if layer == PID or UID in needed:  # its /proc; a Python under somebody's home
        needed.add(MOUNT)
    if needed & set(_NAMESPACES):
        needed.add(USER)
    return [name for name in layers if name in needed]


def _trial(layers: Sequence[str], machine: Machine) -> Survey:
    return Survey(
        layers=tuple(layers), missing={}, tier="C", findings=(), machine=machine, seconds=0.0
    )


@contextmanager
def _attacked(
    trial: Survey, home: str, targets: Targets, attacks: Sequence[Attack]
) -> Iterator[Callable[[str], list[Finding]]]:
    """A ward that is attacking itself; the function waits for what it found."""
    policy = tight_policy(home)
    results_read, results_write = os.pipe()
    output_read, output_write = os.pipe()

    def main() -> None:
        results = [attempt(attack, targets, policy) for attack in attacks]
        os.write(results_write, msgspec.json.encode(results))
        os.close(results_write)
        _leave_daemon()

    def collect(layer: str) -> list[Finding]:
        assert ward is not None
        ended = ward.ended(_ATTACK_S)
        ward.end()
        found = [
            Finding(attack=r.attack, layer=layer, held=r.held, detail=r.detail)
            for r in _results(results_read)
        ]
        alive, printed = _drained(output_read)
        silent = {attack.name for attack in attacks} - {finding.attack for finding in found}
        why = (
            f"no answer: {(printed.splitlines() or ['killed'])[-1]}" if ended else "did not finish"
        )
        found += [Finding(attack=a, layer=layer, held=False, detail=why) for a in sorted(silent)]
        detail = "still there" if alive else "killed with the ward"
        found.append(Finding(attack=_DAEMON, layer=layer, held=not alive, detail=detail))
        return found

    ward: Ward | None = None
    try:
        ward = spawn(
            policy,
            trial,
            main,
            output_fd=output_write,
            keep_fds=(results_write,),
            environment={"PATH": os.defpath},
        )
        os.close(results_write)
        os.close(output_write)
        results_write = output_write = -1
        yield collect
    finally:
        if ward is not None:
            ward.end()
        for fd in (results_read, results_write, output_read, output_write):
            if fd >= 0:
                os.close(fd)


def _leave_daemon() -> None:
    """In a session of its own, its parent gone, holding the output open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        os._exit(0)


def _results(fd: int) -> list[Result]:
    os.set_blocking(fd, False)
    data = b""
    with suppress(BlockingIOError):
        while chunk := os.read(fd, 1 << 16):
            data += chunk
    try:
        return msgspec.json.decode(data, type=list[Result])
    except msgspec.DecodeError:
        return []


def _drained(fd: int) -> tuple[bool, str]:
    """Whether somebody still holds the other end, and what was printed."""
    printed = b""
    while select.select([fd], [], [], 0.5)[0]:
        chunk = os.read(fd, 1 << 16)
        if not chunk:
            return False, printed.decode(errors="replace")
        printed += chunk
    return True, printed.decode(errors="replace")


@contextmanager
def _scratch() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="gpu-sandbox-survey-")
    try:
        yield os.path.realpath(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _targets() -> Iterator[Targets]:
    """A file, servers, a process and shared memory outside, for the length of the survey."""
    with ExitStack() as stack:
        directory = os.path.realpath(stack.enter_context(_scratch()))
        os.chmod(directory, 0o1777)
        canary, secret = os.path.join(directory, "canary"), os.path.join(directory, "secret")
        for path, mode in ((canary, 0o644), (secret, 0o600)):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode))
        unix_path = os.path.join(directory, "socket")
        if len(os.fsencode(unix_path)) > _LONGEST_SOCKET_PATH:  # else nobody could attack it
            near = stack.enter_context(tempfile.TemporaryDirectory(prefix="survey-", dir="/tmp"))
            os.chmod(near, 0o711)
            unix_path = os.path.join(near, "socket")
        unix_name = f"gpu-sandbox-survey-{os.getpid()}".encode()
        servers = {
            "path": (socket.AF_UNIX, unix_path),
            "name": (socket.AF_UNIX, b"\0" + unix_name),
            "tcp": (socket.AF_INET, ("127.0.0.1", 0)),
        }
        port = 1
        for kind, (family, address) in servers.items():
            # Where the host itself has no network, there is nothing to attack either.
            with suppress(OSError):
                server = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                server.bind(address)  # type: ignore[arg-type]
                server.listen(64)
                if kind == "tcp":
                    port = server.getsockname()[1]
        with suppress(FileNotFoundError):
            os.chmod(unix_path, 0o777)
        victim = stack.enter_context(_victim())
        key, shm = int.from_bytes(os.urandom(4), "big") & 0x7FFFFFFF | 1, -1
        if "shmget" in NUMBERS:
            with suppress(OSError):
                shm = call("shmget", key, 4096, _IPC_CREAT | 0o666)
                stack.callback(lambda: call("shmctl", shm, _IPC_RMID, 0))
        yield Targets(
            canary=canary,
            secret=secret,
            unix_path=unix_path,
            unix_name=unix_name,
            port=port,
            victim=victim,
            shm_key=key,
            package=os.path.dirname(os.path.abspath(__file__)),
            namespaces={
                layer: os.readlink(f"/proc/self/ns/{name}")
                for layer, name in NAMESPACE_FILES.items()
                if os.path.lexists(f"/proc/self/ns/{name}")
            },
        )


@contextmanager
def _victim() -> Iterator[int]:
    """A process of our own user that does nothing."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(write)
            os.read(read, 1)  # until we are gone
        finally:
            os._exit(0)
    os.close(read)
    try:
        yield pid
    finally:
        os.close(write)
        with suppress(ChildProcessError, ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
