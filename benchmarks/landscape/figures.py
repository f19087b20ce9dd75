"""The curves as SVG, with matplotlib (the ``analysis`` extra)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.landscape.measure import Band, Outcome
from benchmarks.landscape.tables import DEFAULT, Results
from benchmarks.landscape.variants import ABLATIONS, METHODS, POLICIES, RANKED
from benchmarks.landscape.worlds import WORLDS

__all__ = ["draw_all"]

_EPSILON_OF = {0.3: "stark"} | {
    epsilon: f"epsilon {epsilon}" for epsilon in (0.0, 0.1, 0.2, 0.4, 0.5)
}


def draw_all(results: Results, folder: Path) -> None:
    """Write every figure. The same results give the same bytes."""
    mpl.rcParams.update(
        {"svg.hashsalt": "landscape", "svg.fonttype": "none", "font.size": 9, "axes.grid": True}
    )
    default = results.outcomes[DEFAULT]
    adaptations = ["stark", *list(ABLATIONS)[:3], "epsilon_greedy"]
    others = ["stark", *list(ABLATIONS)[3:]]
    curves: dict[str, tuple[Mapping[str, Outcome], Sequence[str]]] = {
        "methods": (default, list(METHODS)),
        "methods_long": (results.long, list(METHODS)),
        "policies": (default, ["stark", *POLICIES]),
        "adaptations": (default, adaptations),
        "ablations": (default, others),
    }
    for name, (outcomes, variants) in curves.items():
        _save(_curves(outcomes, variants), folder / f"{name}.svg")
    _save(_epsilons(default), folder / "epsilon.svg")
    _save(_worlds(results), folder / "worlds.svg")


def _curves(outcomes: Mapping[str, Outcome], names: Sequence[str]) -> Figure:
    """Delivered speedup and success over attempts."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    speed, success = figure.subplots(1, 2)
    for name in names:
        _line(speed, outcomes[name].curve, name)
        _line(success, outcomes[name].success, name)
    speed.set(xlabel="attempts", ylabel="delivered speedup (geometric mean)")
    success.set(xlabel="attempts", ylabel="tasks with a correct kernel")
    speed.legend(fontsize=7)
    return figure


def _line(axes: Axes, bands: Sequence[Band], name: str) -> None:
    attempts = range(1, len(bands) + 1)
    [line] = axes.plot(attempts, [band.value for band in bands], label=name, linewidth=1.2)
    axes.fill_between(
        attempts, [band.low for band in bands], [band.high for band in bands],
        color=line.get_color(), alpha=0.15, linewidth=0,
    )  # fmt: skip


def _epsilons(outcomes: Mapping[str, Outcome]) -> Figure:
    figure = Figure(figsize=(4.2, 3), layout="constrained")
    axes = figure.subplots()
    epsilons = sorted(_EPSILON_OF)
    for attempts in (10, 20, 30):
        bands = [outcomes[_EPSILON_OF[epsilon]].curve[attempts - 1] for epsilon in epsilons]
        errors = [[b.value - b.low for b in bands], [b.high - b.value for b in bands]]
        axes.errorbar(
            epsilons, [band.value for band in bands], errors, marker="o", capsize=3, linewidth=1,
            label=f"after {attempts} attempts",
        )  # fmt: skip
    axes.set(xlabel="epsilon", ylabel="delivered speedup")
    axes.legend(fontsize=7)
    return figure


def _worlds(results: Results) -> Figure:
    """Every variant's ratio to STARK, a panel a world."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(WORLDS), sharey=True, sharex=True)
    names = RANKED[:0:-1]
    for world, axes in zip(WORLDS, panels, strict=True):
        bands = [results.against_stark[world][name] for name in names]
        errors = [[b.value - b.low for b in bands], [b.high - b.value for b in bands]]
        axes.errorbar(
            [band.value for band in bands], range(len(names)), xerr=errors, fmt="o", markersize=3,
            linewidth=1,
        )  # fmt: skip
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_title(world, fontsize=8)
        axes.grid(visible=False)
        axes.set_yticks(range(len(names)), names, fontsize=7)
    figure.supxlabel("delivered speedup over STARK's, paired, 95 % bands", fontsize=8)
    return figure


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
