"""The version is said in one place, and in what an engine that is not installed says of itself."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from engine.loop import start
from events.bodies import FORMAT

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_an_engine_that_is_not_installed_says_the_version_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(start.metadata, "version", absent)
    assert start.engine_version() == f"{PROJECT['version']}+uninstalled"


def test_the_version_is_of_the_logs_format() -> None:
    assert PROJECT["version"].startswith(f"{FORMAT}.")
