"""Results of one parametrized test in pytest's JUnit files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

__all__ = ["Cases", "cases_of", "names_in"]


class Cases(NamedTuple):
    """Ids of a test's parameters, by how its cases ended, in the order of the files."""

    passed: list[str]
    failed: list[str]
    skipped: list[str]

    @property
    def tried(self) -> int:
        return len(self.passed) + len(self.failed)


def cases_of(paths: Iterable[Path], test: str) -> Cases:
    """Cases of ``test``; a later file's result of a case replaces an earlier one's.

    Raises ``ElementTree.ParseError`` for a file that is no XML.
    """
    ended: dict[str, str] = {}
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            name, bracket, rest = case.get("name", "").partition("[")
            if name == test and bracket:
                ended[rest.rstrip("]")] = _ending(case)
    endings = ("passed", "failed", "skipped")
    return Cases(*([name for name, how in ended.items() if how == end] for end in endings))


def names_in(path: Path) -> set[str]:
    """Of all cases, with their tests. Raises ``ElementTree.ParseError``."""
    return {case.get("name", "") for case in ElementTree.parse(path).iter("testcase")}


def _ending(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"
