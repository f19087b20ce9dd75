"""Findings in the untrusted output of sanitizers, a line each. Pure.

``lines`` maps files of a build, as ``DIGEST/main.cpp``, to the candidate's lines: the entry
at index n − 1 is that of line n, or 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_MAX_FINDINGS = 4
_MAX_CHARS = 400
_MAX_LINE = 1000  # characters of a line that is read
_FILE = re.compile(r"(?<![\w./+-])(?P<path>[\w./+-]+):(?P<line>\d+)(?::\d+)?")
_ASAN = re.compile(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)")
_SUMMARY = re.compile(r"SUMMARY: AddressSanitizer: (?P<kind>[\w-]+)")
_ACCESS = re.compile(r"^(?P<kind>READ|WRITE) of size (?P<size>\d+)", re.MULTILINE)
_SIGNAL = re.compile(r"The signal is caused by a (READ|WRITE)")
_FRAME = re.compile(r"^ +#\d+ 0x\w+ in (?P<name>.*?) (?P<place>/\S+:\d+)", re.MULTILINE)
_REGION = re.compile(
    r"is located (?P<far>\d+ bytes) (?P<side>inside of|to the right of|to the left of|after|before)"
    r" (?P<size>\d+)-byte region"
)
_SIDES = {"to the right of": "after", "to the left of": "before", "inside of": "inside"}
_TOLD = re.compile(r"^========= ?(.*)$", re.MULTILINE)
_IDLE = (
    "COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "LEAK", "Target application",
    "Error: Target application",
)  # fmt: skip
_THREAD = re.compile(r"\s*by thread .*")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{5,}\b")

Lines = Mapping[str, Sequence[int]]


def address_findings(output: str, lines: Lines) -> list[str]:
    """The finding of AddressSanitizer, which stops at the first."""
    output = _narrow(output)
    found = _ASAN.search(output)
    if found is None:
        return []
    report, _, allocation = output[found.end() :].partition("allocated by thread")
    summary = _SUMMARY.search(output)
    what = (summary or found)["kind"]
    if access := _ACCESS.search(report):
        what += f": {access['kind']} of size {access['size']}"
    elif cause := _SIGNAL.search(report):
        what += f": {cause[1]} of an address that is not mapped"
    if own := _own_frame(report, lines):
        what += f" at {_placed(own['place'], lines)} in {own['name']}"
    if region := _REGION.search(report):
        side = _SIDES.get(region["side"], region["side"])
        what += f", {region['far']} {side} a {region['size']}-byte region"
        if maker := _own_frame(allocation, lines):
            what += f" allocated at {_placed(maker['place'], lines)}"
    return _bounded([what])


def memory_findings(output: str, lines: Lines) -> list[str]:
    """Findings of compute-sanitizer; those that differ by thread or address only are counted."""
    counted: dict[str, int] = {}
    for block in _blocks(_narrow(output)):
        finding = "; ".join(_placed(line, lines) for line in block)
        counted[finding] = counted.get(finding, 0) + 1
    return _bounded(
        f"{finding} ({n} times)" if n > 1 else finding for finding, n in counted.items()
    )


def _blocks(output: str) -> Iterator[list[str]]:
    """A line that is not indented begins a finding; an empty one, or a backtrace, ends it."""
    block: list[str] = []
    listening = False
    for found in _TOLD.finditer(output):
        line = found[1].rstrip()
        if line and not line.startswith(" "):
            if block:
                yield block
            block, listening = [], not line.startswith(_IDLE)
        elif not line or "backtrace" in line:
            listening = False
        if listening and not _THREAD.match(line):
            block.append(_ADDRESS.sub("0x…", line.strip()))
    if block:
        yield block


def _own_frame(report: str, lines: Lines) -> re.Match[str] | None:
    """The innermost frame in a file of the build."""
    for frame in _FRAME.finditer(report):
        found = _FILE.search(frame["place"])
        if found is not None and _name(found["path"]) in lines:
            return frame
    return None


def _placed(text: str, lines: Lines) -> str:
    """With the candidate's line in place of the generated file's."""

    def replace(found: re.Match[str]) -> str:
        name, number = _name(found["path"]), int(found["line"][:9])
        own = lines.get(name, ())
        if 0 < number <= len(own) and own[number - 1] > 0:
            return f"candidate.py:{own[number - 1]}"
        return f"{name.rsplit('/', 1)[-1]}:{number}"

    return _FILE.sub(replace, text)


def _narrow(output: str) -> str:
    return "\n".join(line[:_MAX_LINE] for line in output.splitlines())


def _name(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:])


def _bounded(findings: Iterator[str] | Sequence[str]) -> list[str]:
    plain = ["".join(c if c.isprintable() else " " for c in one)[:_MAX_CHARS] for one in findings]
    if len(plain) > _MAX_FINDINGS:
        plain = [*plain[:_MAX_FINDINGS], f"… {len(plain) - _MAX_FINDINGS} more findings"]
    return plain
