"""The figure of advice: slowdown over cost, with the Pareto front."""

from __future__ import annotations

from matplotlib.figure import Figure

from tierscope.advise import Advice
from tierscope.pages.chart import PALETTE, spread_by_ratio


def front(advice: Advice) -> Figure:
    """Slowdown over cost: a mark a candidate, filled on the front, with intervals."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(one.system for one in advice.candidates))
    for number, name in enumerate(names):
        own = [one for one in advice.candidates if one.system == name]
        colour = PALETTE[number % len(PALETTE)]
        axes.plot([c.cost for c in own], [c.slowdown for c in own], color=colour, linewidth=0.8)
        for one in own:
            axes.errorbar(
                one.cost,
                one.slowdown,
                yerr=one.half_width,
                color=colour,
                marker="o",
                markersize=7,
                markerfacecolor="white" if one.front == "no" else colour,
                capsize=3,
                label=name if one is own[0] else None,
            )
            axes.annotate(
                one.dram, (one.cost, one.slowdown), (4, 4), textcoords="offset points", fontsize=7
            )
    if spread_by_ratio([one.slowdown for one in advice.candidates]):
        axes.set_yscale("log")
    axes.set_xlabel(advice.cost_unit)
    axes.set_ylabel(f"time, {advice.reference} = 1")
    axes.set_title(
        f"{advice.workload}: filled marks are on the front ({advice.state})", fontsize=10
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return figure
