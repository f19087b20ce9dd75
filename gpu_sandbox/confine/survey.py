"""Which layers hold on this machine: each is set up, alone and with the others, and attacked.

Invariants: a layer is promised only if a real jail could be started with it and every attack
that it claims to refuse was refused while it stood alone, and again while all stood together;
every other layer has a reason that says what to do. The survey leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial

from gpu_sandbox.confine import cgroups
from gpu_sandbox.confine.attacks import ATTACKS, Attack, Targets, targets
from gpu_sandbox.confine.identity import SYS_ADMIN
from gpu_sandbox.confine.kernel_support import Machine, look
from gpu_sandbox.confine.layer_trial import Trial, trial
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
    WATCH,
    SpawnFailed,
    tier_of,
)
from gpu_sandbox.confine.survey_result import Finding, Survey
from gpu_sandbox.confine.syscalls import lacks

__all__ = ["NAMESPACE_SETTINGS", "survey"]

NAMESPACE_SETTINGS = {
    "/proc/sys/user/max_user_namespaces": ("0", "user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}
"""Files that may forbid user namespaces: the value that does, and the sysctl that allows them."""
_TRIALS = 4
"""Of the same, at most, while they are killed before they answer."""
_NAMESPACES = (MOUNT, NET, IPC, PID, UTS, CGROUP_NAMESPACE)


def survey(*, without: Collection[str] = ()) -> Survey:
    """Look, try and attack: 0.1 to 0.5 s. ``without``: layers to do without, by name.

    Call it in the zygote itself, or in a process with the same rights, ``sys.path`` and
    environment. Raises ``SpawnFailed`` if not even an unconfined jail can be started.
    """
    began = time.monotonic()
    machine, missing = look()
    missing |= dict.fromkeys(without, "turned off")
    wanted = [layer for layer in LAYERS if layer not in missing]
    if not lacks(SYS_ADMIN) and USER in wanted:
        wanted.remove(USER)  # a privileged process needs none
    if CGROUP in wanted and WATCH in wanted:
        wanted.remove(WATCH)  # it counts memory better
    cgroups.remove_stale(machine.hierarchies)
    findings: list[Finding] = []
    with targets() as aims:
        layers = _settle(wanted, missing, machine, aims, findings)
        _attack_each(layers, layers, machine, aims, findings)
        _blame(findings, layers, missing)
        if _watch_instead(layers, missing):
            more: list[Finding] = []
            _attack_each([WATCH], layers, machine, aims, more)
            _blame(more, layers, missing)
            findings += more
    return Survey(
        layers=tuple(layers),
        missing={layer: missing[layer] for layer in LAYERS if layer in missing},
        tier=tier_of(set(layers), kernel_has_landlock=machine.landlock_abi > 0),
        findings=tuple(findings),
        machine=machine,
        seconds=time.monotonic() - began,
    )


def _blame(findings: Sequence[Finding], layers: list[str], missing: dict[str, str]) -> None:
    """What did not hold goes."""
    for finding in findings:
        if not finding.held:
            for layer in _blamed(finding, layers):
                layers.remove(layer)
                missing[layer] = f"an attack got through ({finding.attack}: {finding.detail})"


def _watch_instead(layers: list[str], missing: dict[str, str]) -> bool:
    """Memory is watched where no control group limits it. Whether that is new."""
    if CGROUP in layers or WATCH in layers or WATCH in missing:
        return False
    layers[:] = [layer for layer in LAYERS if layer in (*layers, WATCH)]
    return True


def _blamed(finding: Finding, layers: Sequence[str]) -> list[str]:
    if finding.layer != "all":
        return [finding.layer] if finding.layer in layers else []
    attack = next((a for a in ATTACKS if a.name == finding.attack), None)
    return [layer for layer in layers if attack is not None and layer in attack.layers]


def _settle(
    wanted: list[str],
    missing: dict[str, str],
    machine: Machine,
    aims: Targets,
    findings: list[Finding],
) -> list[str]:
    """The layers with which a jail starts; attacks it while all of them stand."""
    layers = list(wanted)
    while True:
        attacks = [a for a in ATTACKS if not a.layers or _claims(a, layers, machine)]
        begin = partial(trial, "all", layers, machine, aims, attacks)
        try:
            with begin() as begun:
                findings += _answers(begun, begin)
            return layers
        except SpawnFailed as failure:
            if failure.layer not in layers:
                raise
            _give_up(failure.layer, failure.reason, layers, missing)


def _give_up(layer: str, reason: str, layers: list[str], missing: dict[str, str]) -> None:
    missing[layer] = reason + _advice(layer, reason, by_user=USER in layers)
    layers.remove(layer)
    _watch_instead(layers, missing)
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
        for path, (bad, fix) in NAMESPACE_SETTINGS.items():
            with suppress(OSError), open(path, encoding="ascii") as file:
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
    which: Sequence[str],
    layers: Sequence[str],
    machine: Machine,
    aims: Targets,
    findings: list[Finding],
) -> None:
    """Each of ``which``, with those of ``layers`` that it needs. All side by side: what they
    wait for is mostly the kernel."""
    with ExitStack() as stack:
        trials: list[tuple[Trial, Callable[[], AbstractContextManager[Trial]]]] = []
        for layer in which:
            attacks = [a for a in ATTACKS if _claims_alone(a, layer, layers, machine)]
            if not attacks:
                continue
            needed = _with_needs(layer, layers)
            begin = partial(trial, layer, needed, machine, aims, attacks)
            try:
                begun = stack.enter_context(begin())
            except SpawnFailed as failure:
                detail = f"could not be set up alone: {failure}"
                findings.append(
                    Finding(attack="stand alone", layer=layer, held=False, detail=detail)
                )
                continue
            trials.append((begun, begin))
        for begun, again in trials:
            findings += _answers(begun, again)


def _answers(begun: Trial, again: Callable[[], AbstractContextManager[Trial]]) -> list[Finding]:
    """A trial's findings, of a new one if it was killed before it answered. One of its attacks has
    the kernel kill a process for its memory, which stays charged to the jail for as long as
    somebody, a monitor, say, reads about that process in ``/proc``: then the kernel kills who waits
    for it, too."""
    found = begun.findings()
    for _ in range(_TRIALS - 1):
        if not begun.cut_short:
            break
        with suppress(SpawnFailed), again() as begun:
            found = begun.findings()
    return found


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
