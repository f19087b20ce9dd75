"""Survey of isolation: which layers can be set up here, and hold when they are attacked.

Invariants: a layer is promised only if a jail could be started with it and every attack that it
claims to refuse was refused while it stood alone, and again while all stood together; every other
layer has a reason that says what to do. The survey leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from gpu_sandbox.confine import cgroups
from gpu_sandbox.confine.attacks.table import ATTACKS, Attack
from gpu_sandbox.confine.attacks.targets import Targets, targets
from gpu_sandbox.confine.attacks.trial import trial
from gpu_sandbox.confine.identity import SYS_ADMIN
from gpu_sandbox.confine.kernel_support import Finding, Machine, Survey, inspect_machine
from gpu_sandbox.confine.policy import Layer, SpawnFailed, tier_of
from gpu_sandbox.confine.syscalls import lacks

NAMESPACE_SETTINGS = {
    "/proc/sys/user/max_user_namespaces": ("0", "user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}
"""Files that may forbid user namespaces: the value that does, and the sysctl that allows them."""
_TRIES = 4
_NAMESPACES = (
    Layer.MOUNT,
    Layer.NET,
    Layer.IPC,
    Layer.PID,
    Layer.UTS,
    Layer.CGROUP_NAMESPACE,
)


def survey(*, without: Collection[str] = ()) -> Survey:
    """Look, try and attack: one to three seconds. ``without``: layers to do without, by name.

    Call it in the zygote itself, or in a process with the same rights, ``sys.path`` and
    environment. Raises ``SpawnFailed`` if not even an unconfined jail can be started.
    """
    machine, missing = inspect_machine()
    missing |= dict.fromkeys(without, "turned off")
    cgroups.remove_stale(machine.hierarchies)
    with targets() as aims:
        layers = _Layers(machine, missing, aims)
        layers.settle()
        layers.attack_each(list(layers.held))
        if layers.watch_instead():
            layers.attack_each([Layer.WATCH])
    return Survey(
        layers=tuple(layers.held),
        missing={layer: missing[layer] for layer in Layer if layer in missing},
        tier=tier_of(set(layers.held), kernel_has_landlock=machine.landlock_abi > 0),
        findings=tuple(layers.findings),
        machine=machine,
    )


class _Layers:
    """Layers under trial: ``held`` so far, and ``missing`` ones with their reasons."""

    def __init__(self, machine: Machine, missing: dict[str, str], aims: Targets) -> None:
        self.held: list[str] = [layer for layer in Layer if layer not in missing]
        self.missing = missing
        self.findings: list[Finding] = []
        self._machine = machine
        self._aims = aims
        if not lacks(SYS_ADMIN) and Layer.USER in self.held:
            self.held.remove(Layer.USER)  # a privileged process needs none
        if Layer.CGROUP in self.held and Layer.WATCH in self.held:
            self.held.remove(Layer.WATCH)  # a control group counts memory better

    def settle(self) -> None:
        """Drop layers until a jail starts with the others; attack it while all of them stand."""
        while True:
            attacks = [
                attack
                for attack in ATTACKS
                if not attack.layers or any(self._claims(layer, attack) for layer in self.held)
            ]
            try:
                self._try("all", self.held, attacks)
                return
            except SpawnFailed as failure:
                if failure.layer not in self.held:
                    raise
                self._give_up(failure.layer, failure.reason)

    def attack_each(self, layers: Sequence[str]) -> None:
        """Attack each alone; drop what did not hold, now or while all stood together."""
        for layer in layers:
            attacks = [attack for attack in ATTACKS if self._claims(layer, attack)]
            if not attacks:
                continue
            try:
                self._try(layer, _with_needs(layer, self.held), attacks)
            except SpawnFailed as failure:
                detail = f"could not be set up alone: {failure}"
                self.findings.append(
                    Finding(attack="stand alone", layer=layer, held=False, detail=detail)
                )
        for finding in self.findings:
            if not finding.held:
                for layer in self._blamed(finding):
                    self.held.remove(layer)
                    reason = f"an attack got through ({finding.attack}: {finding.detail})"
                    self.missing[layer] = reason

    def watch_instead(self) -> bool:
        """Have memory watched where no control group limits it. Whether that is new."""
        if Layer.CGROUP in self.held or Layer.WATCH in self.held or Layer.WATCH in self.missing:
            return False
        self.held = [layer for layer in Layer if layer in (*self.held, Layer.WATCH)]
        return True

    def _try(self, name: str, layers: Sequence[str], attacks: Sequence[Attack]) -> None:
        """Again if it was killed before it answered. One of its attacks has the kernel kill a
        process for its memory, which stays charged to the jail for as long as a monitor reads about
        it in ``/proc``: then the kernel kills the jail's other processes, too."""
        findings, cut_short = trial(name, layers, self._machine, self._aims, attacks)
        for _ in range(_TRIES - 1):
            if not cut_short:
                break
            with suppress(SpawnFailed):
                findings, cut_short = trial(name, layers, self._machine, self._aims, attacks)
        self.findings += findings

    def _claims(self, layer: str, attack: Attack) -> bool:
        """Whether ``layer`` has to refuse it alone."""
        if layer == Layer.LANDLOCK and self._machine.landlock_abi < attack.landlock_abi:
            return False
        if layer == Layer.RLIMITS and attack.per_user:
            by_user = Layer.USER in self.held and self._machine.own_process_count
            return Layer.UID in self.held or by_user
        return layer in attack.layers

    def _blamed(self, finding: Finding) -> list[str]:
        if finding.layer != "all":
            return [finding.layer] if finding.layer in self.held else []
        claiming = {layer for a in ATTACKS if a.name == finding.attack for layer in a.layers}
        return [layer for layer in self.held if layer in claiming]

    def _give_up(self, layer: str, reason: str) -> None:
        self.missing[layer] = reason + _advice(layer, reason, by_user=Layer.USER in self.held)
        self.held.remove(layer)
        self.watch_instead()
        dependants: tuple[str, ...] = ()
        if layer == Layer.USER:
            dependants = _NAMESPACES
        elif layer == Layer.MOUNT:
            dependants = (Layer.PID,)  # whose /proc can't be mounted then
        for other in dependants:
            if other in self.held:
                self.held.remove(other)
                self.missing[other] = f"needs {layer}, which is missing: {self.missing[layer]}"
        if Layer.USER in self.held and not any(name in self.held for name in _NAMESPACES):
            self.held.remove(Layer.USER)
            self.missing[Layer.USER] = "allows none of the other namespaces here"


def _advice(layer: str, reason: str, *, by_user: bool) -> str:
    """What to do, if the machine's settings show it."""
    if "/proc is refused" in reason:
        return (
            "; a container that hides parts of /proc does that "
            "(--security-opt systempaths=unconfined, or procMount: Unmasked)"
        )
    if layer == Layer.USER or (layer in _NAMESPACES and by_user):
        for path, (bad, fix) in NAMESPACE_SETTINGS.items():
            with suppress(OSError), open(path, encoding="ascii") as file:
                if file.read().strip() == bad:
                    return f"; sysctl {fix}"
    if layer == Layer.USER or layer in _NAMESPACES:
        return "; in a container: --cap-add SYS_ADMIN, or a seccomp profile that allows it"
    return ""


def _with_needs(layer: str, layers: Sequence[str]) -> list[str]:
    """A layer with those of ``layers`` that it can't be without."""
    needed = {layer}
    if layer in (Layer.SECCOMP, Layer.LANDLOCK):
        needed.add(Layer.NO_NEW_PRIVS)
    if layer == Layer.RLIMITS:  # processes are counted by user
        needed |= {Layer.UID, Layer.USER}
    if layer == Layer.PID or Layer.UID in needed:  # its /proc; a Python below a private home
        needed.add(Layer.MOUNT)
    if needed & set(_NAMESPACES):
        needed.add(Layer.USER)
    return [name for name in layers if name in needed]
