"""Figures as Vega-Lite describes them: what all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tierscope.errors import TierscopeError

if TYPE_CHECKING:
    import altair as alt

Spec = dict[str, Any]
"""A figure, as Vega-Lite takes it (https://vega.github.io/schema/vega-lite/v6.json)."""
Rows = Sequence[Mapping[str, Any]]
"""The data of a figure."""

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")
"""Colours of systems: Okabe and Ito's, which people see apart however they see colours."""
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
"""Strokes of systems, so that they are told apart without colour."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
"""Marks of systems, for the same."""
WIDTH = 620
_FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"

CONFIG: Spec = {
    "background": "white",
    "font": _FONT,
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "gridColor": "#e4e4e4", "labelLimit": 260},
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 260, "symbolSize": 120},
    "title": {"fontSize": 15, "subtitleFontSize": 12, "anchor": "start", "subtitleColor": "#444"},
    "view": {"stroke": None},
}


def chart(title: str, state: str, rows: Rows, body: Spec) -> Spec:
    """A figure with its title and how complete it is.

    Args:
        title: what it shows.
        state: complete, sampled or partial, and of what.
        rows: its data.
        body: marks and encodings.
    """
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": f"{title}; {state}",
        "title": {"text": title, "subtitle": state},
        "data": {"values": [dict(row) for row in rows]},
        "config": CONFIG,
        **body,
    }


def in_altair(specs: Sequence[Spec]) -> list[alt.TopLevelMixin]:
    """Figures as Altair has them.

    Raises:
        TierscopeError: where Altair is not installed.
    """
    try:
        import altair as alt
    except ImportError:
        raise TierscopeError(
            "no-altair",
            "there are no charts for notebooks: the package `altair` is not installed",
            "install it: pip install tierscope[notebook]",
        ) from None
    found: list[alt.TopLevelMixin] = [alt.Chart.from_dict(spec) for spec in specs]
    return found


def by_system(names: Sequence[str]) -> Spec:
    """Colours of systems."""
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(names))]
    return {"domain": list(names), "range": colours}


def shapes(names: Sequence[str]) -> Spec:
    """Marks of systems."""
    return {"domain": list(names), "range": [SHAPES[i % len(SHAPES)] for i in range(len(names))]}


def dashes(names: Sequence[str]) -> Spec:
    """Strokes of systems."""
    return {"domain": list(names), "range": [DASHES[i % len(DASHES)] for i in range(len(names))]}


def chosen(field: str, name: str = "chosen") -> Spec:
    """Clicking an entry of the legend leaves that alone in full colour; shift adds another."""
    return {"name": name, "select": {"type": "point", "fields": [field]}, "bind": "legend"}


def faint(name: str = "chosen") -> Spec:
    """What is not chosen is faint."""
    return {"condition": {"param": name, "value": 1}, "value": 0.12}


def tooltip(*fields: tuple[str, str]) -> list[Spec]:
    """What hovering tells: field and title of each line."""
    return [{"field": field, "title": title, "type": "nominal"} for field, title in fields]


def labels_of_times(seconds: float = 1.0) -> str:
    """Labels of an axis of times, each with its unit; ``seconds`` is what 1 stands for."""
    return _labels(seconds, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)))


def labels_of_energies() -> str:
    """Labels of an axis of joules, each with its unit."""
    return _labels(1.0, (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6), ("nJ", 1e-9)))


def _labels(factor: float, units: Sequence[tuple[str, float]]) -> str:
    """An expression of Vega: the value in the largest unit that it has one of."""
    *larger, (last, least) = units
    told = "".join(
        f"abs(datum.value) >= {size / factor!r} * 0.9999 ? "
        f"format(datum.value / {size / factor!r}, '.3~r') + ' {unit}' : "
        for unit, size in larger
    )
    rest = f"format(datum.value / {least / factor!r}, '.3~r') + ' {last}'"
    return f"datum.value == 0 ? '0' : {told}{rest}"


def spread_by_ratio(values: Sequence[float]) -> bool:
    """Whether values, all above 0, differ so much that only a logarithmic axis shows them all."""
    return bool(values) and min(values) > 0 and max(values) / min(values) >= 50
