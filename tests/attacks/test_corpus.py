"""The corpus and its tables agree, and everything in it is Python."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_sandbox.confine import Layer
from gpu_sandbox.static_checks.precheck import inspect_candidate
from tests.attacks.defences.table import DEFENCES
from tests.attacks.files import HERE, attack_source, docstring, honest_source, task_source
from tests.attacks.honest_table import HONEST
from tests.attacks.short import SHORT, SHORT_ATTACKS
from tests.attacks.table import ATTACKS
from tests.attacks.targets import missing_targets

DOCS = HERE.parents[1] / "docs"
PAGE = DOCS / "sandbox.md"
THREATS = DOCS / "sandbox" / "threat-model.md"
_ROW = re.compile(r"^\| ([A-Z]\d+) \|.*\| ([^|]*) \|$", re.MULTILINE)
WORLD: dict[str, Any] = {"dir": "/x", "pid": 1, "mark": "m"}


def test_every_file_is_in_the_table_and_every_entry_has_a_file() -> None:
    on_disk = {(p.parent.name, p.stem) for p in (HERE / "corpus").glob("*/*.py")}
    listed = {(a.family, a.name) for a in ATTACKS.values()}
    assert {f for f in on_disk if f[0] != "include"} == listed
    assert {p.stem for p in (HERE / "honest").glob("*.py")} == HONEST.keys()
    used = {a.task for a in ATTACKS.values()} | {h.task for h in HONEST.values()}
    assert {p.stem for p in (HERE / "tasks").glob("*.py")} == used


def test_the_page_says_how_many_there_are() -> None:
    attacks = [attack.device for attack in ATTACKS.values()]
    honest = [honest.device for honest in HONEST.values()]
    on_cpu, on_gpu = (
        [sum(each in (device, "both") for each in devices) for devices in (attacks, honest)]
        for device in ("cpu", "cuda")
    )
    told = " ".join(PAGE.read_text().split())
    assert f"({on_cpu[0]} on the CPU, {on_gpu[0]} on a GPU)" in told
    assert f"({on_cpu[1]} and {on_gpu[1]})" in told


def test_each_attack_has_an_honest_twin_where_it_runs() -> None:
    for attack in ATTACKS.values():
        honest = HONEST[attack.honest]
        assert "both" in (attack.device, honest.device) or attack.device == honest.device
        assert honest.name != attack.name


def test_each_gets_past_the_static_guard() -> None:
    sources = [attack_source(a.family, a.name, WORLD) for a in ATTACKS.values()]
    sources += [honest_source(name) for name in HONEST]
    for source in sources:
        compile(source, "candidate.py", "exec")
        assert inspect_candidate(source).outcome is None
        assert "@WORLD@" not in source
        assert "# @include" not in source
    for task in {a.task for a in ATTACKS.values()}:
        compile(task_source(task), "task.py", "exec")


def test_each_attack_says_what_it_does_and_names_attacks_that_exist() -> None:
    for attack in ATTACKS.values():
        assert len(docstring(attack.family, attack.name)) > 20
        assert attack.outcomes
        assert attack.before is None or attack.before in ATTACKS
        assert set(attack.needs) <= set(Layer)  # or a bomb is thrown where nothing catches it


@pytest.mark.parametrize("name", ATTACKS)
def test_what_an_attack_reaches_for_exists(name: str) -> None:
    attack = ATTACKS[name]
    assert not missing_targets(attack_source(attack.family, name, WORLD))


def test_a_name_that_is_gone_is_found() -> None:
    lost = """
import sys
import gpu_sandbox.worker.main as worker
clock = sys.modules["gpu_sandbox.worker.timed_calls"]
gone = sys.modules["gpu_sandbox.child.clock"]
clock.TimedModel._time_gone = None
worker.Gone
def take_over(self): self._renamed_long_ago()
"""
    assert missing_targets(lost) == [
        "no Gone in gpu_sandbox.worker.main",
        "no _time_gone in TimedModel",
        "no module gpu_sandbox.child.clock",
        "nothing in the sandbox has an attribute _renamed_long_ago",
    ]


def _rows() -> dict[str, set[str]]:
    """The attacks that the threat model names, by its rows."""
    rows = _ROW.findall(THREATS.read_text())
    named = {row: set(re.findall(r"`(\w+)`", tests)) & ATTACKS.keys() for row, tests in rows}
    return {row: attacks for row, attacks in named.items() if attacks}


def test_each_attack_is_in_a_row_of_the_threat_model() -> None:
    assert set().union(*_rows().values()) == ATTACKS.keys()


def test_each_row_of_the_threat_model_has_an_attack_in_the_short_run() -> None:
    rows = _rows()
    assert SHORT.keys() == rows.keys()
    for row, attacks in SHORT.items():
        assert set(attacks) <= rows[row]
        on_cpu = [name for name in attacks if ATTACKS[name].device != "cuda"]
        assert on_cpu or all(ATTACKS[name].device == "cuda" for name in rows[row])


@pytest.mark.parametrize("name", [name for name in DEFENCES if DEFENCES[name].bites])
def test_each_defence_has_an_attack_that_bites_in_the_short_run(name: str) -> None:
    assert any(bite.attack in SHORT_ATTACKS for bite in DEFENCES[name].bites)


def test_honest_twins_of_short_attacks_are_short() -> None:
    assert [name for name in SHORT_ATTACKS if HONEST[ATTACKS[name].honest].slow] == []
