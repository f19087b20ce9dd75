"""When device memory that is kept is given back, by what the driver and torch say of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gpu_sandbox.verifier.backends.lookup import backend_of

CUDA, CPU = backend_of(torch.device("cuda:0")), backend_of(torch.device("cpu"))


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: found.append("all"))
    return found


def holds(
    monkeypatch: pytest.MonkeyPatch, *, total: int, free: int, reserved: int, used: int
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, total))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: reserved)
    account = {
        "reserved_bytes": {"all": {"current": reserved}},
        "allocated_bytes": {"all": {"current": used}},
    }
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: account)
    told = SimpleNamespace(total_memory=total)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: told)


@pytest.mark.parametrize(("reserved", "gives"), [(1, False), (3, True)])
def test_between_jobs_little_is_kept(
    monkeypatch: pytest.MonkeyPatch, given_back: list[str], reserved: int, gives: bool
) -> None:
    holds(monkeypatch, total=128, free=100, reserved=reserved, used=0)
    CUDA.keep_little()
    assert bool(given_back) is gives


@pytest.mark.parametrize(
    ("free", "reserved", "used", "gives"),
    [(40, 60, 20, False), (39, 60, 20, True), (1, 90, 90, False), (1, 92, 90, False)],
    ids=["as much is free", "less is free", "all is used", "it is little"],
)
def test_a_candidate_gets_half_of_what_nobody_uses(
    monkeypatch: pytest.MonkeyPatch,
    given_back: list[str],
    free: int,
    reserved: int,
    used: int,
    gives: bool,
) -> None:
    holds(monkeypatch, total=128, free=free, reserved=reserved, used=used)
    CUDA.leave_half()
    assert bool(given_back) is gives


def test_a_processor_has_none(given_back: list[str]) -> None:
    CPU.keep_little()
    CPU.leave_half()
    assert not given_back
