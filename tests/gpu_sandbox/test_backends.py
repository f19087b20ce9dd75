"""Kinds of devices: what the engine's side asks of each, and that it asks nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gpu_sandbox
from events.outcomes import Correct
from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends import known
from gpu_sandbox.backends.cpu import CpuBackend
from gpu_sandbox.backends.known import (
    BACKENDS,
    backend_named,
    backend_of,
    device_named,
    devices_named,
    visible_variables,
)
from gpu_sandbox.backends.protocol import Backend
from gpu_sandbox.languages import languages_on
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST

PACKAGE = Path(gpu_sandbox.__file__).parent
CHILDREN = {
    "accelerator", "compiler", "cuda", "extension_build", "probes", "runtime", "tensors",
    "verifier", "worker", "zygote",
}  # fmt: skip
"""Rooms that no engine runs: they have protocols of their own."""
KINDS = tuple(backend.kind for backend in BACKENDS)


# --- where a kind of device is asked for


def engines_side() -> list[Path]:
    """Of the sandbox all but its children and the backends themselves, and all of the engine."""
    rooms = {*CHILDREN, "backends"}
    sandbox = [p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in rooms]
    return [*sandbox, *(PACKAGE.parent / "engine").rglob("*.py")]


def is_kind(node: ast.AST) -> bool:
    """``"cuda"`` and ``"cuda:0"``, by themselves or in a tuple."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(is_kind, node.elts))
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and value.split(":")[0] in KINDS


def asks_for_kind(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="is_cuda" | "is_cpu"):
            return True
        case ast.Attribute(attr="type", value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return "device" in name.lower() or name == "where"
        case ast.Compare():
            return any(map(is_kind, (node.left, *node.comparators)))
        case ast.MatchValue(value=value):
            return is_kind(value)
        case ast.Call(func=ast.Attribute(attr="startswith"), args=args):
            return any(map(is_kind, args))
        case ast.Dict(keys=keys):
            return any(key is not None and is_kind(key) for key in keys)
        case _:
            return False


def lines_of(source: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(source)):
        if asks_for_kind(node):
            yield getattr(node, "lineno", 0)


@pytest.mark.process
def test_the_kind_of_a_device_is_asked_for_in_its_backend_only() -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}"
        for path in engines_side()
        for line in lines_of(path.read_text())
    ]
    assert not found, "ask backend_of(device) for what differs"


@pytest.mark.parametrize(
    "asks",
    [
        "x = 1 if device.is_cuda else 2",
        "if self._device.type == kind: pass",
        "if device != 'cpu': pass",
        "if name in ('cuda', 'auto'): pass",
        "if name.startswith('cuda'): pass",
        "if name.startswith(('cuda:', 'rocm:')): pass",
        "seconds = {'cpu': 3.0, 'cuda': 5.0}[kind]",
        "match kind:\n    case 'cuda': pass",
    ],
)
def test_the_search_finds_what_it_looks_for(asks: str) -> None:
    assert list(lines_of(asks))


def test_the_search_leaves_other_words_alone() -> None:
    assert not list(lines_of("facts.get('cuda'); name.removeprefix('cpu'); error.type; d = 'cpu'"))


# --- what each backend answers, with or without such a device


@pytest.fixture(params=BACKENDS, ids=KINDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    for each in BACKENDS:
        monkeypatch.delenv(each.visible_by or "NONE", raising=False)
    found: Backend = request.param
    return found


FACTS: dict[str, Any] = {
    "isa": "AVX2", "compute_capability": "9.0", "l2_bytes": 1 << 20, "uuid": "GPU-1",
}  # fmt: skip


def test_names_lead_to_their_backend(backend: Backend) -> None:
    device = device_named(backend.first)
    assert device.name == backend.first
    assert device_named(backend.kind) == device
    assert devices_named(f"{backend.kind},{backend.first}") == [backend.first] * 2
    assert backend_of(device) is backend
    assert backend_named(f"{backend.first},{backend.first}") is backend
    others = [each for each in BACKENDS if each is not backend]
    assert all(each.device(backend.first) is None for each in others)
    with pytest.raises(PrerequisiteMissing, match=f"name it .*{backend.name_form}"):
        device_named(f"{backend.kind}:x")


def test_a_child_sees_one_device_or_none(backend: Backend) -> None:
    hidden = visible_variables()
    shown = visible_variables(device_named(backend.first))
    assert set(hidden) == set(shown) == {each.visible_by for each in BACKENDS if each.visible_by}
    assert not any(hidden.values())
    differing = {name for name in shown if shown[name] != hidden[name]}
    assert differing == ({backend.visible_by} if backend.visible_by else set())
    assert all(Path(node).is_char_device() for node in backend.nodes())


def test_a_lease_has_an_identity_without_facts(backend: Backend) -> None:
    device = device_named(backend.first)
    assert backend.lease_identity(device, {}) == device.name
    assert backend.lease_identity(device, FACTS)
    assert isinstance(backend.driver_version(), str)
    assert isinstance(backend.is_present(), bool)


def test_evaluations_have_limits_of_their_own(backend: Backend) -> None:
    assert backend.bench_s > 0
    assert backend.drains_s >= 0
    assert languages_on(backend.kind)
    cached = backend.cache_bytes(FACTS)
    assert cached is None or cached > 0


@pytest.mark.process
def test_builds_say_what_they_depend_on(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    builds = backend.builds
    assert builds.architecture(FACTS) in FACTS.values()
    assert builds.toolchain().strip()
    assert builds.pretended(FACTS) in (None, FACTS)
    assert not set(builds.variables(FACTS)) & set(visible_variables())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "nothing")
    with pytest.raises(PrerequisiteMissing):
        builds.require()


@pytest.mark.process
def test_tools_are_absent_or_say_how_to_start_them(backend: Backend) -> None:
    tools = backend.tools
    for sanitizer in filter(None, (tools.memory, tools.races)):
        assert sanitizer.name
        assert sanitizer.title
        assert sanitizer.findings("nothing of note\n", {}) == []
        if (command := sanitizer.command()) is not None:
            assert command.words or command.environment
            assert all(Path(place).is_absolute() for place in command.readable)
            assert command.anew == tools.built_only
    if tools.counters is not None:
        assert "\n" not in tools.counters.refusal()
        assert isinstance(tools.counters.read("nothing of note\n", "f"), str)


@pytest.mark.process
def test_checks_of_the_doctor_need_no_device(backend: Backend) -> None:
    checks = backend.checks
    assert checks.of_isolation(can_connect=True) == []
    found = [
        *(look() for look in checks.machine),
        *checks.of_verdict(backend.first, ["not-gated: too short"]),
        *checks.of_isolation(can_connect=False),
    ]
    assert found
    assert all("\n" not in check.detail for check in found)
    assert not any(check.needed for check in found), "another kind of device may do"
    assert all(check.ok for check in checks.of_verdict(backend.first, []))


# --- a kind of device that this repository does not know


class Twin(CpuBackend):
    """The CPU under another name, as a device with a variable of its own."""

    kind = "twin"
    first = "twin:0"
    name_form = "'twin:N'"
    visible_by = "TWIN_VISIBLE_DEVICES"
    bench_s = 0.3

    def device(self, name: str) -> Device | None:
        number = name.removeprefix("twin:")
        return Device(name=name, inside="cpu", visible=number) if number.isdigit() else None


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Twin:
    twin = Twin()
    monkeypatch.setattr(known, "BACKENDS", (*BACKENDS, twin))
    monkeypatch.setitem(known._BY_KIND, twin.kind, twin)
    return twin


def test_names_and_variables_of_another_kind_are_known(twin: Twin) -> None:
    assert backend_named("twin:1,twin:2") is twin
    assert visible_variables(device_named("twin:3"))["TWIN_VISIBLE_DEVICES"] == "3"
    assert visible_variables(device_named("cpu"))["TWIN_VISIBLE_DEVICES"] == ""
    with pytest.raises(PrerequisiteMissing, match="'cpu' or 'cuda:N' or 'twin:N'"):
        device_named("twin")


@pytest.mark.process
@pytest.mark.anyio
@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_another_kind_of_device_is_a_module_and_nothing_else(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    async with make_sandbox(Limits(), devices=("twin:0",)) as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST, device="twin:0", reuse=True))
    assert isinstance(verdict.outcome, Correct), verdict.outcome
    assert verdict.device == "twin:0"
