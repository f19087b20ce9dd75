"""Which starts survey isolation, and which read what an earlier one found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gpu_sandbox.confine import Finding, Machine, Survey, survey_cache
from gpu_sandbox.confine.kernel_support import inspect_machine
from gpu_sandbox.confine.survey_cache import cached_survey, forget_survey
from gpu_sandbox.confine.syscalls import prctl

HELD = Finding(attack="read a file outside", layer="all", held=True, detail="refused: EACCES")
NOBODY = 65534
_PR_SET_DUMPABLE = 4
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its ids")


def _survey(machine: Machine, *findings: Finding) -> Survey:
    return Survey(layers=("seccomp",), missing={}, tier="C", findings=findings, machine=machine)


@pytest.fixture
def surveys(monkeypatch: pytest.MonkeyPatch) -> list[Survey]:
    """Every survey that was made, which all attacks failed against."""
    made: list[Survey] = []
    machine = inspect_machine()[0]

    def survey(without: tuple[str, ...] = ()) -> Survey:
        made.append(_survey(machine, HELD))
        return made[-1]

    monkeypatch.setattr(survey_cache, "survey", survey)
    return made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "isolation"


def test_a_second_start_of_a_boot_reads_what_the_first_found(
    surveys: list[Survey], place: Path
) -> None:
    assert cached_survey(place) == cached_survey(place) == surveys[0]
    assert len(surveys) == 1
    assert [path.name for path in place.iterdir()] == ["survey"]


def test_other_layers_are_surveyed(surveys: list[Survey], place: Path) -> None:
    cached_survey(place)
    cached_survey(place, without=("cgroup",))
    assert len(surveys) == 2


def test_another_boot_is_surveyed(
    surveys: list[Survey], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_survey(place)
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(survey_cache, "_BOOT_ID", tmp_path / "boot_id")
    cached_survey(place)
    cached_survey(place)
    assert len(surveys) == 2
    monkeypatch.setattr(survey_cache, "_BOOT_ID", tmp_path / "absent")
    cached_survey(place)
    cached_survey(place)
    assert len(surveys) == 4, "a boot without an id is no boot that is known"


def test_other_code_is_surveyed(
    surveys: list[Survey], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "confine" / "attacks" / "reach.py"
    code.parent.mkdir(parents=True)
    code.write_text("one = 1\n")
    monkeypatch.setattr(survey_cache, "__file__", str(code.parents[1] / "survey_cache.py"))
    cached_survey(place)
    code.write_text("one = 2\n")
    cached_survey(place)
    assert len(surveys) == 2


@needs_root
def test_other_rights_are_surveyed(surveys: list[Survey], place: Path) -> None:
    cached_survey(place)
    before = os.getgroups()
    try:
        os.setgroups([*before, NOBODY])
        cached_survey(place)
    finally:
        os.setgroups(before)
    assert len(surveys) == 2


@needs_root
def test_another_user_surveys_and_changes_nothing(surveys: list[Survey], place: Path) -> None:
    cached_survey(place)
    before = (place / "survey").read_bytes()
    place.chmod(0o755)
    (place / "survey").chmod(0o644)
    place.parent.chmod(0o755)
    os.seteuid(NOBODY)
    prctl(_PR_SET_DUMPABLE, 1)  # or it could not read its own rights
    try:
        cached_survey(place)
    finally:
        os.seteuid(0)
    assert len(surveys) == 2
    assert (place / "survey").read_bytes() == before


def _widen(place: Path) -> None:
    place.chmod(0o777)


def _widen_the_file(place: Path) -> None:
    (place / "survey").chmod(0o666)


def _link_the_file(place: Path) -> None:
    (place / "survey").rename(place.parent / "elsewhere")
    (place / "survey").symlink_to(place.parent / "elsewhere")


def _link_the_directory(place: Path) -> None:
    place.rename(place.parent / "elsewhere")
    place.symlink_to(place.parent / "elsewhere")


def _cut_short(place: Path) -> None:
    os.truncate(place / "survey", 40)


def _fill_with_something_else(place: Path) -> None:
    (place / "survey").write_bytes(msgspec.msgpack.encode({"key": 1, "survey": None}))


@pytest.mark.parametrize(
    "spoil",
    [
        _widen,
        _widen_the_file,
        _link_the_file,
        _link_the_directory,
        _cut_short,
        _fill_with_something_else,
    ],
)
def test_what_others_may_have_written_or_is_damaged_is_not_read(
    surveys: list[Survey], place: Path, spoil: Callable[[Path], None]
) -> None:
    cached_survey(place)
    spoil(place)
    cached_survey(place)
    assert len(surveys) == 2


def test_a_survey_in_which_an_attack_got_through_is_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = msgspec.structs.replace(HELD, held=False)
    made: list[Survey] = []

    def survey(without: tuple[str, ...] = ()) -> Survey:
        made.append(_survey(inspect_machine()[0], HELD, through))
        return made[-1]

    monkeypatch.setattr(survey_cache, "survey", survey)
    assert cached_survey(place) == made[0]
    assert cached_survey(place) == made[1]


def test_a_place_that_cant_be_written_to_costs_a_survey_and_no_start(
    surveys: list[Survey], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert cached_survey(tmp_path / "file" / "isolation") == surveys[0]


def test_what_is_forgotten_is_surveyed_again(surveys: list[Survey], place: Path) -> None:
    forget_survey(place)
    cached_survey(place)
    forget_survey(place)
    cached_survey(place)
    assert len(surveys) == 2
