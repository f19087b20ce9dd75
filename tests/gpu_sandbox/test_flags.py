"""Flags that a candidate's source asks for; read in the engine's own process, whatever it says."""

from __future__ import annotations

import time

import pytest

from gpu_sandbox.toolchain.compiler_flags import flag_sets


def build(flags: str, before: str = "") -> str:
    return f"{before}\nload_inline(name='x', extra_cflags={flags})\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (build("['-O3', '-Wall']"), [("-O3",)]),
        (build("MORE + ['-g']", "FAST = ['-O3']\nMORE = FAST + ['-march=native']"),
         [("-O3", "-march=native", "-g")]),
        (build("None"), [()]),
        ("load(name='x')\ntorch.load_inline(name='y', extra_cflags=('-O2',))", [(), ("-O2",)]),
        (build("['-fplugin=x']"), []),
        (build("chosen()"), []),
        (build("A", "A = A + ['-O3']"), []),
        ("def broken(:", []),
    ],
)  # fmt: skip
def test_flags_are_read_where_they_are_literal(
    source: str, expected: list[tuple[str, ...]]
) -> None:
    assert flag_sets(source) == expected


def doubled(most: int, base: str) -> str:
    sums = [f"a{n} = a{n + 1} + a{n + 1}" for n in range(most)]
    return build("a0", "\n".join([*sums, f"a{most} = {base}"]))


@pytest.mark.parametrize(
    "source",
    [
        doubled(40, "['-O3']"),
        build(" + ".join(["['-O3']"] * 1500)),
        build("A", f"A = ['{'-O3 ' * 50_000}']") * 500,
        build("['-O3']") * 20_000,
        "\n".join(build(f"['-march=x{n}']") for n in range(50)),
    ],
    ids=["doubled", "deep", "long", "many", "different"],
)
def test_what_asks_for_too_much_is_asked_nothing(source: str) -> None:
    assert flag_sets(source) == []


def test_nothing_that_doubles_takes_long() -> None:
    began = time.process_time()
    assert flag_sets(doubled(40, "[]")) == [()]
    assert time.process_time() - began < 5.0
