from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gpu_sandbox.confine import Survey
from gpu_sandbox.confine.machine import look
from gpu_sandbox.doctor import examine, isolation_checks

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


async def test_the_doctor_evaluates_on_each_device_and_says_what_is_missing(
    sandbox_cache: Path,
) -> None:
    checks = {c.name: c for c in await examine(("cpu", "cuda:63"), cache=sandbox_cache)}
    assert checks["device cpu"].ok
    assert checks["torch"].ok
    assert "of at most 10 GB" in checks["build cache"].detail
    assert " of at most 65536, 0.0 MB in " in checks["kept verdicts"].detail
    assert " of at most 65536, " in checks["kept baselines"].detail
    assert checks["torch"].detail[0].isdigit()
    assert not checks["device cuda:63"].ok
    assert checks["device cuda:63"].fix
    layers = {name.removeprefix("isolation ") for name in checks if "isolation" in name}
    assert {"landlock", "seccomp", "cgroup", "namespaces:mount", "rlimits"} <= layers
    assert any(name.startswith("isolation tier ") for name in checks)
    assert all("\n" not in c.detail for c in checks.values())
    assert msgspec.json.encode(list(checks.values()))


def test_what_is_wrong_with_a_layer_and_what_can_be_done_are_told_apart() -> None:
    refused = "[Errno 1] unshare: Operation not permitted"
    missing = {"namespaces:user": f"{refused}; sysctl user.max=1", "cgroup": "/sys/fs is read-only"}
    survey = Survey(
        layers=(), missing=missing, findings=(), tier="B", machine=look()[0], seconds=0.0
    )
    checks = {check.name: check for check in isolation_checks(survey)}
    found = checks["isolation namespaces:user"]
    assert (found.detail, found.fix) == (refused, "sysctl user.max=1")
    assert checks["isolation cgroup"].fix == ""
