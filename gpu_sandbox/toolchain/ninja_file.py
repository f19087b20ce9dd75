"""Commands in the ``build.ninja`` that torch writes, to be run without ninja.

A file with other constructs than the few that torch uses is refused.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec

_VARIABLE = re.compile(r"\$(\w+|.)")
_DEPENDENCIES = re.compile(r"-MM?D -MF \S+ ")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """``inputs`` and ``output`` are named as in the file: relative to the directory."""

    rule: str
    inputs: list[str]
    output: str
    template: str
    variables: dict[str, str]

    def command(self, **changed: str) -> str:
        """For the shell. ``changed`` variables replace those of the file."""
        local = {"in": " ".join(map(shlex.quote, self.inputs)), "out": shlex.quote(self.output)}
        known = {**self.variables, **local, **changed}
        line = _VARIABLE.sub(lambda found: known.get(found[1], found[1]), self.template)
        return _DEPENDENCIES.sub("", line)


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    compiles: list[Step]
    link: Step

    @staticmethod
    def read(directory: Path) -> Recipe | None:
        """None if the file is not like those that torch writes."""
        variables: dict[str, str] = {}
        rules: dict[str, str] = {}
        builds: list[tuple[str, str, list[str]]] = []
        rule = ""
        for line in (directory / "build.ninja").read_text().splitlines():
            name, _, value = line.partition(" = ")
            if not line.strip() or line.startswith("default "):
                continue
            if line.startswith("rule "):
                rule = line.removeprefix("rule ").strip()
            elif line.startswith("build "):
                output, _, rest = line.removeprefix("build ").partition(": ")
                kind, *inputs = _split(rest)
                builds.append((kind, _split(output)[0], inputs))
            elif line.startswith("  "):
                if name.strip() == "command":
                    rules[rule] = value
            elif re.fullmatch(r"\w+ ?=.*", line):
                variables[name.removesuffix(" =")] = value
            else:
                return None
        if not {kind for kind, _, _ in builds} <= {"compile", "cuda_compile", "link"}:
            return None
        steps = [
            Step(rule=kind, inputs=i, output=o, template=rules[kind], variables=variables)
            for kind, o, i in builds
        ]
        links = [step for step in steps if step.rule == "link"]
        if len(links) != 1:
            return None
        return Recipe(compiles=[s for s in steps if s.rule != "link"], link=links[0])


def _split(text: str) -> list[str]:
    """Words, in which ``$`` escapes a space."""
    return [re.sub(r"\$(.)", r"\1", word) for word in re.findall(r"(?:\$.|\S)+", text)]
