"""``docs/sandbox/defences.md``: ``python -m tests.attacks.defences.page`` writes it."""

from __future__ import annotations

from pathlib import Path

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.table import DEFENCES
from tests.attacks.table import ATTACKS

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[3] / "docs" / "sandbox" / "defences.md"
_HEAD = """# Defences and what they stop

Each defence of the [threat model](threat-model.md) is switched off in a test, and an attack of the
corpus then has to succeed: so no attack has gone blind, and no defence does nothing. The tests
start the zygote by an entry of their own, which replaces one function or constant before the first
fork. The product has no switch for this, but for layers of isolation, which a machine may lack.
`tests/attacks/defences/` holds the table, from which
`python -m tests.attacks.defences.page` makes this page.

```
pytest tests/attacks/test_defences.py                          # the table agrees with the code
pytest -m "slow and not gpu" tests/attacks/test_defences.py    # each attack, on the CPU
pytest -m "slow and gpu" tests/attacks/test_defences.py        # those that need a GPU
```

Attacks marked GPU need one. *Switched off with it* names the other defences that stop the attack,
too. Modules are below `gpu_sandbox/`.

| defence | threats | module | switched off by | attack that then succeeds | switched off with it |
|---|---|---|---|---|---|
"""
_KEPT = """
## Not switched off

| defence | threats | module | why, and what shows that it works |
|---|---|---|---|
"""


def page() -> str:
    switched = [defence for defence in DEFENCES.values() if not defence.kept]
    kept = [defence for defence in DEFENCES.values() if defence.kept]
    return _HEAD + "".join(map(_rows, switched)) + _KEPT + "".join(map(_kept, kept))


def _rows(defence: Defence) -> str:
    """A line for each set of defences that are switched off together."""
    head = [defence.name, ", ".join(defence.threats), f"`{defence.module}`", _how(defence)]
    lines = []
    for (_, *also_off), bites in defence.tries().items():
        attacks = ", ".join(map(_attack, bites))
        lines.append(f"| {' | '.join([*head, attacks, ', '.join(also_off)])} |\n")
        head = ["", "", "", ""]
    return "".join(lines)


def _how(defence: Defence) -> str:
    layers = [f"without layer `{layer}`" for layer in defence.without]
    return ", ".join([*layers, *(f"`{_short(patch.target)}`" for patch in defence.patches)])


def _short(target: str) -> str:
    """``module:Class.name`` without the path."""
    module, _, name = target.partition(":")
    return f"{module.rpartition('.')[2]}.{name}"


def _attack(bite: Bite) -> str:
    return f"`{bite.attack}`" + (" (GPU)" if ATTACKS[bite.attack].device == "cuda" else "")


def _kept(defence: Defence) -> str:
    cells = [defence.name, ", ".join(defence.threats), f"`{defence.module}`", defence.kept]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
