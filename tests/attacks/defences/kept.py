"""Defences that no test switches off, why, and what shows that they work."""

from __future__ import annotations

from tests.attacks.defences.defence import Defence

__all__ = ["DEFENCES"]


def _kept(name: str, module: str, threats: tuple[str, ...], why: str, shown_by: str) -> Defence:
    return Defence(name=name, module=module, threats=threats, kept=f"{why} (tests/{shown_by})")


_BUILT_IN = "what stands in its place is another design, not a patch"
_ENDLESS = "without it the verdict never comes"
_BROKEN = "without it the verifier breaks, which is judged anew (X8)"

DEFENCES = (
    _kept(
        "little is left to do on the clock",
        "ipc/cpu_call_messages.py",
        ("C4",),
        _BUILT_IN,
        "gpu_sandbox/test_one_call.py",
    ),
    _kept(
        "timers are refused",
        "confine/syscall_policy.py",
        ("C8",),
        "the gain is below what a busy machine reads by chance",
        "confine/test_peers.py",
    ),
    _kept(
        "one call a batch",
        "verifier/timing/cpu_call.py",
        ("C10",),
        _BUILT_IN,
        "gpu_sandbox/test_one_call.py",
    ),
    _kept(
        "a process for each side",
        "verifier/worker_link/client.py",
        ("C12", "C16", "K17", "A1"),
        _BUILT_IN,
        "gpu_sandbox/test_peer.py",
    ),
    _kept(
        "plans follow from the baseline",
        "verifier/timing/baseline.py",
        ("C17",),
        _BUILT_IN,
        "gpu_sandbox/test_baseline.py",
    ),
    _kept(
        "the page cache says nothing",
        "confine/syscall_policy.py",
        ("A7",),
        "no attack in the corpus",
        "confine/test_jail.py",
    ),
    _kept(
        "a copy into another order is in a call's time",
        "verifier/trials/checks.py",
        ("K11",),
        "allowed, so there is nothing to switch off",
        "gpu_sandbox/test_owned.py",
    ),
    _kept(
        "descriptions are bounded",
        "ipc/worker_messages.py",
        ("K13",),
        _BROKEN,
        "gpu_sandbox/test_frames.py",
    ),
    _kept(
        "frames are typed and limited",
        "ipc/framing.py",
        ("K14", "H8"),
        _BROKEN,
        "gpu_sandbox/test_frames.py",
    ),
    _kept(
        "reads of a worker's memory are checked",
        "verifier/worker_link/worker_memory.py",
        ("K15",),
        _BROKEN,
        "gpu_sandbox/test_one_call.py",
    ),
    _kept(
        "source labels",
        "static_checks/source_labels.py",
        ("K18",),
        "a label is advice, and changes no verdict",
        "gpu_sandbox/test_labels.py",
    ),
    _kept(
        "builds belong to one candidate",
        "builds/build_cache.py",
        ("K19",),
        "the attacks need the file system, which own root, own user and Landlock close",
        "gpu_sandbox/test_builds.py",
    ),
    _kept(
        "outputs are scrambled before a call",
        "tensors/shared_arena.py",
        ("A2", "K20"),
        "what is not written differs from what is expected anyway",
        "gpu_sandbox/test_arena.py",
    ),
    _kept(
        "a note on NaN that is swallowed",
        "verifier/trials/nan_propagation.py",
        ("K22",),
        "a note is advice, and changes no verdict",
        "gpu_sandbox/test_verdicts.py",
    ),
    _kept(
        "relatives can't be looked into",
        "confine/identity.py",
        ("H3", "A6"),
        "a candidate would be root here, with all rights and no filter",
        "confine/test_jail.py",
    ),
    _kept(
        "the whole jail is ended",
        "confine/jail_init.py",
        ("H6", "K21"),
        "processes would be left on this machine",
        "confine/test_end.py",
    ),
    _kept(
        "time limits",
        "verifier/worker_link/requests.py",
        ("H7", "H13"),
        _ENDLESS,
        "gpu_sandbox/test_verdicts.py",
    ),
    _kept(
        "children get a fresh environment",
        "toolchain/environment.py",
        ("H9",),
        "a process can't change its parent's environment: there is nothing to switch off",
        "gpu_sandbox/test_isolation.py",
    ),
    _kept(
        "few compiler flags are followed",
        "toolchain/compiler_flags.py",
        ("H10",),
        "without it the engine never answers",
        "gpu_sandbox/test_flags.py",
    ),
    _kept(
        "memory, processes and disk are limited",
        "confine/cgroups.py",
        ("H11",),
        "bombs would hit this machine",
        "confine/test_memory.py",
    ),
    _kept(
        "the arena is sealed",
        "accelerator/cpu.py",
        ("H12",),
        "a candidate has no descriptor of it, either",
        "gpu_sandbox/test_arena.py",
    ),
)
