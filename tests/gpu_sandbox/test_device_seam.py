"""Which kind of device it is decides in backends alone, and what each of these can be asked."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gpu_sandbox
from gpu_sandbox.accelerator.accelerator import Accelerator
from gpu_sandbox.accelerator.lookup import accelerator_of
from gpu_sandbox.probes.backends import lookup as probes
from gpu_sandbox.probes.backends.backend import Backend as ProbeBackend
from gpu_sandbox.verifier.backends import lookup as verifier
from gpu_sandbox.verifier.backends.backend import Backend as VerifierBackend
from gpu_sandbox.verifier.backends.backend import EventClock
from gpu_sandbox.verifier.backends.lookup import events_of
from gpu_sandbox.worker.backends import lookup as worker
from gpu_sandbox.worker.backends.backend import Backend as WorkerBackend

SANDBOX = Path(gpu_sandbox.__file__).parent
CHILDREN = (
    "verifier", "worker", "compiler", "probes", "zygote", "extension_build", "runtime", "tensors",
)  # fmt: skip
"""All of the children's rooms, but for ``accelerator/`` and ``cuda/``, which are about kinds."""
ALLOWED = {
    "compiler/fake_device.py": "answers in place of torch.cuda where no device is visible",
    "verifier/reference/float64_casts.py": "torch is asked for autocast by the kind's name",
    "worker/outputs.py": "tells where a tensor lies, and compares that: any kind alike",
}
KINDS = {"cpu", "cuda"}

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")
SIDES: dict[type[Accelerator], Callable[[torch.device], Any]] = {
    Accelerator: accelerator_of,
    VerifierBackend: verifier.backend_of,
    WorkerBackend: worker.backend_of,
    ProbeBackend: probes.backend_of,
}
EACH_SIDE = pytest.mark.parametrize(
    ("protocol", "of"), SIDES.items(), ids=lambda value: getattr(value, "__module__", "")
)
EACH_DEVICE = pytest.mark.parametrize("device", [CPU, CUDA], ids=str)


# --- no other code asks for the kind


def branches(source: str) -> list[int]:
    """Lines that ask for a kind of device, or use torch's module of one."""
    asking = filter(_asks, ast.walk(ast.parse(source)))
    return sorted({getattr(node, "lineno", 0) for node in asking})


def _asks(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="is_cuda" | "is_cpu"):
            return True
        case ast.Attribute(value=ast.Name(id="torch"), attr="cuda"):
            return True
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr="type"):
            return name.strip("_") == "device"
        case ast.Compare(left=left, comparators=right):
            sides = [side for part in (left, *right) for side in _parts(part)]
            asked = any(isinstance(s, ast.Attribute) and s.attr == "type" for s in sides)
            return asked and any(isinstance(s, ast.Constant) and s.value in KINDS for s in sides)
        case ast.Import(names=names):
            return any(name.name.startswith("torch.cuda") for name in names)
        case ast.ImportFrom(module="torch", names=names):
            return any(name.name == "cuda" for name in names)
        case ast.ImportFrom(module=str(module)):
            return module.startswith("torch.cuda")
    return False


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]


def _modules() -> Iterator[tuple[str, list[int]]]:
    for room in CHILDREN:
        for path in sorted((SANDBOX / room).rglob("*.py")):
            if "backends" not in path.relative_to(SANDBOX).parts:
                yield str(path.relative_to(SANDBOX)), branches(path.read_text())


@pytest.mark.parametrize(
    "source",
    [
        "if x.is_cuda: pass",
        "if device.type == 'cuda': pass",
        "kind = self._device.type",
        "on_host = where.type == 'cpu'",
        "on_host = where.type in ('cpu', 'meta')",
        "torch.cuda.synchronize()",
        "from torch import cuda",
        "import torch.cuda",
        "from torch.cuda import Event",
    ],
)
def test_such_a_branch_is_found(source: str) -> None:
    assert branches(source) == [1]


@pytest.mark.parametrize("source", ["node.type == 'call'", "torch.version.cuda", "x.type(y)"])
def test_others_are_none(source: str) -> None:
    assert not branches(source)


def test_only_backends_ask_which_kind_a_device_is() -> None:
    found = {name: lines for name, lines in _modules() if lines}
    assert {name: found[name] for name in found if name not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "an exception that nothing needs any more"


# --- each has what is asked of it, and none asks the device before it has to


def _public(protocol: type) -> dict[str, Any]:
    return {
        name: inspect.getattr_static(protocol, name)
        for name in dir(protocol)
        if not name.startswith("_")
    }


@EACH_SIDE
@EACH_DEVICE
def test_a_backend_is_made_once_and_asks_nothing_of_its_device(
    protocol: type[Accelerator], of: Callable[[torch.device], Any], device: torch.device
) -> None:
    started = torch.cuda.is_initialized()
    assert of(device) is of(torch.device(str(device)))
    assert isinstance(of(device), protocol)
    assert of(device).device == device
    assert torch.cuda.is_initialized() is started


@EACH_SIDE
@EACH_DEVICE
def test_a_backend_takes_what_its_protocol_says(
    protocol: type[Accelerator], of: Callable[[torch.device], Any], device: torch.device
) -> None:
    made = type(of(device))
    for name, declared in _public(protocol).items():
        own = inspect.getattr_static(made, name)
        if inspect.isfunction(declared):
            assert list(inspect.signature(own).parameters) == list(
                inspect.signature(declared).parameters
            ), name
    fields = {name for base in protocol.__mro__ for name in getattr(base, "__annotations__", {})}
    assert all(hasattr(made, name) for name in fields if name != "device")


@EACH_SIDE
def test_the_host_is_told_from_devices(
    protocol: type[Accelerator], of: Callable[[torch.device], Any]
) -> None:
    assert of(CPU).on_host
    assert not of(CUDA).on_host


def test_what_has_no_memory_is_the_hosts() -> None:
    assert accelerator_of(torch.device("meta")).on_host


@pytest.mark.parametrize("made", [*SIDES.values()], ids=lambda of: of.__module__)
def test_the_host_needs_nothing_before_or_after_a_call(
    made: Callable[[torch.device], Accelerator],
) -> None:
    host = made(CPU)
    host.start_driver()
    host.make_context()
    host.limit_memory(0.1)
    torch.manual_seed(5)
    first = torch.rand(1)
    torch.manual_seed(5)
    host.seed(7)
    host.synchronize()
    assert torch.rand(1) == first  # its one generator is seeded with torch's default one
    assert not host.is_capturing()


def test_memory_of_the_host_is_shared_by_descriptor() -> None:
    ours, fd = accelerator_of(CPU).share(4096)
    theirs = accelerator_of(CPU).open_shared(fd, 4096)
    ours.tensor.fill_(3)
    assert theirs.part(100, 8).tolist() == [3] * 8
    assert theirs.part(100, 8).untyped_storage().nbytes() == 8
    theirs.close(), ours.close()


def test_a_device_has_a_generator_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    generators = (None, SimpleNamespace(manual_seed=seeds.append))
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    accelerator_of(torch.device("cuda:1")).seed(11)
    assert seeds == [11]


# --- the verifier's


def test_the_host_has_no_memory_besides_and_no_events() -> None:
    host = verifier.backend_of(CPU)
    host.get_ready()
    host.keep_little(), host.leave_half()
    assert host.free_bytes() is None
    assert host.driver_account() is None
    assert host.allocated_bytes() == host.peak_bytes() == 0
    assert not host.is_crowded()
    assert not host.is_much(1 << 50)
    assert host.events is None
    with pytest.raises(AssertionError):
        events_of(CPU)


def test_a_device_is_timed_by_its_events() -> None:
    events = events_of(CUDA)
    assert isinstance(events, EventClock)
    assert events.kernel_ns > 0


@pytest.mark.parametrize(("free", "crowded"), [(40, True), (60, False)])
def test_a_device_is_crowded_while_less_than_half_is_free(
    monkeypatch: pytest.MonkeyPatch, free: int, crowded: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 100))
    assert verifier.backend_of(CUDA).is_crowded() is crowded
    assert verifier.backend_of(CUDA).free_bytes() == free


def test_writing_little_takes_no_time_of_its_own() -> None:
    host = verifier.backend_of(CPU)
    assert host.least_write_ns(1000) == 0.0
    assert host.least_write_ns(4 << 20) > 0.0


# --- a worker's


def test_the_host_has_no_streams_and_no_cold_cache() -> None:
    host = worker.backend_of(CPU)
    host.empty_cache(), host.release_freed_memory()
    assert host.cold_cache() is None
    assert host.profiles == "operators"
    assert host.profiler_options() == {}
    with pytest.raises(RuntimeError, match="no streams"):
        host.current_stream()


def test_what_a_call_left_on_another_stream_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    ours = SimpleNamespace(cuda_stream=1, wait_stream=waited.append)
    left = SimpleNamespace(cuda_stream=2)
    device, current = worker.backend_of(CUDA), [ours]
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: current[-1])
    monkeypatch.setattr(torch.cuda, "set_stream", current.append)
    device.return_to(device.current_stream())
    assert current == [ours]
    current.append(left)
    device.return_to(ours)
    assert waited == [left]
    assert current == [ours, left, ours]


def test_a_device_has_a_cold_cache_for_each_that_asks() -> None:
    device = worker.backend_of(CUDA)
    assert device.cold_cache() is not device.cold_cache()
    assert device.profiles == "kernels"
