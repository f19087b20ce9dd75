from __future__ import annotations

import time

import pytest

from events.outcomes import CompileFailed, NoCandidate
from gpu_sandbox.static_checks.precheck import inspect_candidate
from tests.gpu_sandbox.sources import CPP, HONEST, inline


def test_a_syntax_error_names_its_line() -> None:
    outcome = inspect_candidate("import torch\nclass ModelNew(:\n").outcome
    assert isinstance(outcome, CompileFailed)
    assert outcome.reason.startswith("candidate.py:2: syntax error")


@pytest.mark.parametrize("source", ["", "import torch", "class Model: pass", "x = 'ModelNew'"])
def test_without_model_new_there_is_no_candidate(source: str) -> None:
    assert isinstance(inspect_candidate(source).outcome, NoCandidate)


@pytest.mark.parametrize(
    "source",
    [
        "class ModelNew: pass",
        "class Fast: pass\nModelNew = Fast",
        "from elsewhere import Fast as ModelNew",
        "try:\n    class ModelNew: pass\nexcept Exception: pass",
    ],
)
def test_any_binding_of_the_name_will_do(source: str) -> None:
    assert inspect_candidate(source).outcome is None


@pytest.mark.parametrize("source", ["\x00", "x = " + "(" * 5000, "a = " + "-" * 200_000 + "1"])
def test_hostile_text_is_a_compile_failure(source: str) -> None:
    assert isinstance(inspect_candidate(source).outcome, CompileFailed)


def test_only_what_builds_needs_the_compile_stage() -> None:
    assert not inspect_candidate(HONEST).builds
    on_import = inspect_candidate(inline(CPP))
    assert on_import.builds
    assert not on_import.builds_late
    assert inspect_candidate(inline(CPP, late=True)).builds_late


def test_only_so_much_is_read() -> None:
    model = "class ModelNew: pass\n#"
    most = model + "x" * (256 * 1024 - len(model))
    assert inspect_candidate(most).outcome is None
    outcome = inspect_candidate(most + "x").outcome
    assert isinstance(outcome, CompileFailed)
    assert outcome.reason == (
        "the source is larger than 256 KiB, the most that is judged: write it shorter"
    )
    assert inspect_candidate(model + "é" * 2**17).outcome == outcome


def test_nested_functions_are_read_once() -> None:
    head = "import ctypes\nclass ModelNew: pass\n"
    body = "x();" * 8_000 + "\n"

    def seconds(source: str) -> float:
        began = time.process_time()
        assert not inspect_candidate(source).builds_late
        return time.process_time() - began

    nested = "".join(f"{' ' * n}def f{n}():\n" for n in range(90)) + " " * 90 + body
    assert seconds(head + nested) < 10 * seconds(head + body)
