from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gpu_sandbox.doctor import examine

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
